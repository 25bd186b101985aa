# Sourced after setup.sh: a Slurm controller without nodes that answer, in a network of its own.
# shellcheck shell=bash disable=SC2154

start_controller() {
  debian slurmctld=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 \
    libmunge2=0.5.15-2+deb12u1 libjson-c5=0.16-2 libhttp-parser2.9=2.9.4-5 libyaml-0-2=0.2.5-1
  isolate
  export SLURM_CONF=$WORK/slurm.conf LD_LIBRARY_PATH=$libraries:$libraries/slurm-wlm
  mkdir state
  touch plugstack.conf
  cat >slurm.conf <<X
ClusterName=test
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmUser=$(id --user --name)
PluginDir=$libraries/slurm-wlm
PlugStackConfig=$WORK/plugstack.conf
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$WORK/state
SlurmctldPidFile=$WORK/slurmctld.pid
SlurmctldLogFile=$WORK/slurmctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MailProg=/bin/true
NodeName=n[1-4] NodeAddr=127.0.0.1
PartitionName=blue Nodes=n[1-4] Default=YES
PartitionName=green Nodes=n[1-2]
X
  slurmctld-wlm -D >/dev/null 2>&1 &
  for _ in $(seq 20); do
    scontrol ping >/dev/null && return
    sleep 0.5
  done
  cat slurmctld.log
  exit 1
}
