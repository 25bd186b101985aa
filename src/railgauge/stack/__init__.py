"""The pinned stack: `spack.yaml`, the systems' scopes and locks, and building it by Spack."""
