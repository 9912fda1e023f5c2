import { subnetOf } from '../internal/principal.ts'
import type { Caller } from './caller.ts'

export interface StreamLimits {
  /** Streams of one verified caller. */
  readonly perPrincipal: number
  /** Streams of one address, for callers that are not verified. */
  readonly perAddress: number
}

/**
 * Counts the streams on which callers wait for changes in this process. Anonymous callers share one principal, so they
 * are counted by address. Where the address is unknown, there is no limit.
 */
export class OpenStreams {
  readonly #limits: StreamLimits
  readonly #open = new Map<string, number>()

  constructor(limits: StreamLimits) {
    this.#limits = limits
  }

  /** @returns a function to call at the end of the stream; `undefined` if the caller has too many streams */
  enter({ principal, address }: Caller): (() => void) | undefined {
    const { perPrincipal, perAddress } = this.#limits
    if (!principal.isAnonymous) return this.#take(`principal:${principal.id}`, perPrincipal)
    if (address === undefined) return () => undefined
    return this.#take(`address:${subnetOf(address)}`, perAddress)
  }

  #take(name: string, limit: number): (() => void) | undefined {
    const open = this.#open.get(name) ?? 0
    if (open >= limit) return undefined
    this.#open.set(name, open + 1)
    let hasEnded = false
    return () => {
      if (hasEnded) return
      hasEnded = true
      const left = (this.#open.get(name) ?? 1) - 1
      if (left > 0) this.#open.set(name, left)
      else this.#open.delete(name)
    }
  }
}
