import type { ClientHandlers } from '@x/mcp-client'
import type { ElicitationToInterrupt } from './elicitation-to-interrupt.ts'

/** What clients are given to answer with. Handlers of the caller's own stand before the others. */
export function handlersOf({
  elicitation,
  handlers,
}: {
  readonly elicitation?: ElicitationToInterrupt | undefined
  readonly handlers?: ClientHandlers | undefined
}): ClientHandlers | undefined {
  if (elicitation === undefined) return handlers
  const { sampling = elicitation.handlers.sampling, roots = elicitation.handlers.roots } =
    handlers ?? {}
  return { elicitation: elicitation.handlers.elicitation, sampling, roots }
}
