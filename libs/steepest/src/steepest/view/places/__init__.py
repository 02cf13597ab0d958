"""The places that jobs of several replicas hold, and room that plans promise to others."""
