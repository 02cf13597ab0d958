"""What a training script uses: report, save, resume."""
