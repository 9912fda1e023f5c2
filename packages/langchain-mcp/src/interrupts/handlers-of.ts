import type { ClientHandlers } from '@x/mcp-client'
import type { ToolLog } from '../tool-log.ts'
import { elicitationToInterrupt, type ElicitationToInterrupt } from './elicitation-to-interrupt.ts'
import { outsideOtherRuns } from './own-answers.ts'

/** What of the options says who answers servers. */
export interface AnsweringOptions {
  readonly elicitation?: ElicitationToInterrupt | false | undefined
  readonly handlers?: ClientHandlers | undefined
  readonly log?: ToolLog | undefined
}

/** By interrupts, unless the caller answers by handlers of his own, or does not want it. */
export function elicitationOf({
  elicitation,
  handlers = {},
  log,
}: AnsweringOptions): ElicitationToInterrupt | undefined {
  if (elicitation === false) return undefined
  if (elicitation !== undefined) return elicitation
  if (handlers.elicitation !== undefined) return undefined
  const { sampling, roots } = handlers
  return elicitationToInterrupt({ sampling, roots, log })
}

/** What clients are given to answer with. */
export function handlersOf(
  elicitation: ElicitationToInterrupt | undefined,
  handlers: ClientHandlers | undefined,
): ClientHandlers | undefined {
  if (elicitation === undefined) return handlers
  const { sampling, roots = elicitation.handlers.roots } = handlers ?? {}
  return {
    elicitation: elicitation.handlers.elicitation,
    sampling: outsideOtherRuns(sampling) ?? elicitation.handlers.sampling,
    roots,
  }
}
