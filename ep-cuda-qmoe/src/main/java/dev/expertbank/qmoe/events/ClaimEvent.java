package dev.expertbank.qmoe.events;

import jdk.jfr.Category;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** What was answered to a node of the graph. */
@Name("dev.expertbank.Claim")
@Label("Claim")
@Category("Expert bank")
@StackTrace(false)
public final class ClaimEvent extends Event {
  @Label("Node")
  public String node = "";

  @Label("Operator")
  public String operator = "";

  @Label("Answer")
  public String answer = "";
}
