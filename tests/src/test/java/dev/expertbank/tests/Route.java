package dev.expertbank.tests;

/** One expert chosen for one row, with the factor that its output is added with. */
record Route(int expert, double weight) {}
