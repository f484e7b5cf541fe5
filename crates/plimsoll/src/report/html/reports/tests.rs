//! Each report's figures: what is drawn, and that nothing of what is to be believed is missing.
