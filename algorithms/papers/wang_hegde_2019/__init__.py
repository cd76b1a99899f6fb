"""Wang and Hegde (2019): Q-learning with functional noise, and a corrected form."""
