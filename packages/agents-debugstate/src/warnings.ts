import { debuglog } from 'node:util'
import type { DebugStateError, DebugStateErrorCode } from './debug-state-error.ts'

/** Told of a failure that stopped nothing. What it throws is dropped. */
export type WarningListener = (warning: DebugStateError) => void

const debug = debuglog('debugstate')

/** Reports each kind of failure once. Repeats go to Node's own debug log: `NODE_DEBUG=debugstate`. */
export class Warnings {
  readonly #listener: WarningListener
  readonly #said = new Set<DebugStateErrorCode>()

  constructor(listener: WarningListener = emitProcessWarning) {
    this.#listener = listener
  }

  report(warning: DebugStateError): void {
    debug('%s: %s', warning.code, warning.message)
    if (this.#said.has(warning.code)) return
    this.#said.add(warning.code)
    try {
      this.#listener(warning)
    } catch (error) {
      // A logger that fails must not fail the agent.
      debug('onWarning failed: %s', error)
    }
  }
}

function emitProcessWarning(warning: DebugStateError): void {
  process.emitWarning(warning.message, { type: 'DebugStateWarning', code: warning.code })
}
