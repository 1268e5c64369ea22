#!/bin/sh
#SBATCH --job-name=storebench
#SBATCH --array=1-8
#SBATCH --cpus-per-task=16
# Runs a study in parts, one per array task. OUT must be on a file system that all nodes share.
#
#   id=$(sbatch --parsable --export=ALL,STUDY=study.toml,OUT=/shared/runs slurm.sh)
#   sbatch --dependency="afterany:$id" --wrap "storebench merge /shared/runs/$id --out /shared/runs"
#
# The tasks wait for each other, so the partition must be able to run all of them at the same time.
set -eu
exec storebench run "$STUDY" --part "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --out "$OUT/$SLURM_ARRAY_JOB_ID"
