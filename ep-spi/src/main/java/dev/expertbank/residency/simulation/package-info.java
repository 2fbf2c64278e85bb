/** Residency driven by recorded routes, with the code that a live bank runs. */
@NullMarked
package dev.expertbank.residency.simulation;

import org.jspecify.annotations.NullMarked;
