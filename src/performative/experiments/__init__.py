"""The paper's two experiments."""
