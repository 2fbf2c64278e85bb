/** Tests of the host's inside that need the test module's resources. */
@NullMarked
package dev.expertbank.ort;

import org.jspecify.annotations.NullMarked;
