"""Wang and Hegde (2019): Q-learning with functional noise, and a corrected form."""

FIGURES = {
    "wang-hegde-2019-figure-1": "Q-learning under functional noise",
    "wang-hegde-2019-figure-2": "the same against other private Q-learning",
}
EARLIER = {
    "002-figure-1": "wang-hegde-2019-figure-1",
    "002-figure-2": "wang-hegde-2019-figure-2",
}
