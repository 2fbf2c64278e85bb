package dev.expertbank.qmoe.events;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** A change of the budget. */
@Name("dev.expertbank.Resize")
@Label("Resize")
@Category("Expert bank")
@StackTrace(false)
public final class ResizeEvent extends Event {
  @Label("Direction")
  public String direction = "";

  @Label("Requested")
  @DataAmount
  public long requestedBytes;

  @Label("Achieved")
  @DataAmount
  public long achievedBytes;

  @Label("Extent")
  public String extent = "";
}
