@NullMarked
package dev.expertbank.model;

import org.jspecify.annotations.NullMarked;
