"""What all ReFrame checks share: the strict base class, and one module a kind of job."""
