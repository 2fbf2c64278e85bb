/** What the jars are: dependencies, services, modules, native libraries. */
@NullMarked
package dev.expertbank.tests.packaging;

import org.jspecify.annotations.NullMarked;
