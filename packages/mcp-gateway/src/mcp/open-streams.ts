import { subnetOf } from '../internal/principal.ts'
import type { Caller } from './caller.ts'

export interface StreamLimits {
  /** Of one verified caller. */
  readonly perPrincipal: number
  /** Of one address, where callers are not verified. */
  readonly perAddress: number
}

/**
 * How many streams each caller has open, on which it waits for changes, at this process. All that are anonymous share
 * one name, and are told apart by address; where addresses are not known, they have no limit of their own.
 */
export class OpenStreams {
  readonly #limits: StreamLimits
  readonly #open = new Map<string, number>()

  constructor(limits: StreamLimits) {
    this.#limits = limits
  }

  /** @returns what is to be called when it has ended; `undefined`: the caller has as many as it may */
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
