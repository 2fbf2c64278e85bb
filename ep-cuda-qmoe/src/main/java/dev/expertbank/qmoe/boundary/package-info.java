/** What happens between the runs of a session: residency follows the routes. */
@NullMarked
package dev.expertbank.qmoe.boundary;

import org.jspecify.annotations.NullMarked;
