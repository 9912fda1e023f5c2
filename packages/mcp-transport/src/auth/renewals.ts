import { TransportError } from '../transport-error.ts'

/** One request for another token than the one that was refused. */
export interface Renewal {
  /** The token that the server refused; undefined if the request carried none. */
  readonly refused: string | undefined
  /** Aborts when the request it is for is given up. */
  readonly signal: AbortSignal
}

export interface RenewalsOptions<Request extends Renewal> {
  /** The token in use now. */
  readonly current: (request: Request) => Promise<string | undefined>
  /** Gets another one. `signal` aborts when nobody waits any more. */
  readonly obtain: (request: Request, signal: AbortSignal) => Promise<void>
}

interface Flight {
  readonly controller: AbortController
  readonly done: Promise<void>
  waiting: number
}

/**
 * One renewal at a time for all who hold the same credential. Whoever comes meanwhile waits for its
 * outcome; whoever comes with an older token than the current one needs none.
 */
export class Renewals<Request extends Renewal> {
  readonly #options: RenewalsOptions<Request>
  #flight: Flight | undefined

  constructor(options: RenewalsOptions<Request>) {
    this.#options = options
  }

  /**
   * Resolves when the current token is another than the refused one.
   *
   * @throws what obtaining it threw; TransportError `CLOSED` once `signal` aborts.
   */
  async renew(request: Request): Promise<void> {
    for (;;) {
      const running = this.#flight
      try {
        await this.#wait(running ?? this.#start(request), request.signal)
      } catch (error) {
        if (request.signal.aborted) throw error
        // Somebody else may have had more luck: another process, or whoever finished an authorization.
        if (await this.#isNewer(request)) return
        // Whoever started it has closed its transport; that is no reason for us to fail.
        const isTheirs =
          running !== undefined && TransportError.is(error) && error.code === 'CLOSED'
        if (!isTheirs) throw error
      }
      if (running === undefined || (await this.#isNewer(request))) return
    }
  }

  #start(request: Request): Flight {
    const controller = new AbortController()
    const done = this.#obtain(request, controller.signal).finally(() => {
      if (this.#flight === flight) this.#flight = undefined
    })
    done.catch(() => {}) // told to those who wait
    const flight: Flight = { controller, done, waiting: 0 }
    this.#flight = flight
    return flight
  }

  async #obtain(request: Request, signal: AbortSignal): Promise<void> {
    if (!(await this.#isNewer(request))) await this.#options.obtain(request, signal)
  }

  async #isNewer(request: Request): Promise<boolean> {
    const current = await this.#options.current(request)
    return current !== undefined && current !== request.refused
  }

  async #wait(flight: Flight, signal: AbortSignal): Promise<void> {
    let stop: (() => void) | undefined
    const given = new Promise<never>((_resolve, reject) => {
      stop = () => reject(new TransportError('CLOSED', 'The request was given up'))
      if (signal.aborted) stop()
      else signal.addEventListener('abort', stop, { once: true })
    })
    flight.waiting += 1
    try {
      await Promise.race([flight.done, given])
    } finally {
      flight.waiting -= 1
      if (stop !== undefined) signal.removeEventListener('abort', stop)
      if (flight.waiting === 0) flight.controller.abort()
    }
  }
}
