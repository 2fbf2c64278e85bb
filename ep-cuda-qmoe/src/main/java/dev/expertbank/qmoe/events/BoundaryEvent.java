package dev.expertbank.qmoe.events;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** What became of residency between two runs. */
@Name("dev.expertbank.Boundary")
@Label("Boundary")
@Category("Expert bank")
@StackTrace(false)
public final class BoundaryEvent extends Event {
  @Label("Outcome")
  public String outcome = "";

  @Label("Hits")
  public long hits;

  @Label("Misses")
  public long misses;

  @Label("Started")
  @DataAmount
  public long startedBytes;
}
