/** Benchmarks: main classes that print ratios against something measured in the same run. */
@NullMarked
package dev.expertbank.tests.bench;

import org.jspecify.annotations.NullMarked;
