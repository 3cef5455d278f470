"""A machine-teaching study: people learn two classes from counterfactuals, in the browser, and are tested.

`plan` makes a study from runs, `server` lets people take part, `analyse` says what they learned.
"""
