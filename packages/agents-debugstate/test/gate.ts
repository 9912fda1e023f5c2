import { once } from 'node:events'

/** A promise that the test fulfils. */
export interface Gate {
  readonly opened: Promise<unknown>
  open(this: void): void
}

export function closedGate(): Gate {
  const gate = new AbortController()
  return { opened: once(gate.signal, 'abort'), open: () => gate.abort() }
}
