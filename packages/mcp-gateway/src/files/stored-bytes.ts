import { GatewayError } from '../errors.ts'
import { listAll, type Records } from '../store/gateway-store.ts'

/** Most versions of all files of one account. */
const MAX_VERSIONS = 1000

interface SizedVersion {
  readonly account: string
  readonly blobId: string
  readonly size: number
}

/** Limits the bytes of each account, and the number of its versions. Each version has a record with its size, which ends with the version. */
export class ArtifactQuotas {
  readonly #records: Records
  readonly #updates: AtomicUpdates
  readonly #maxBytes: number
  /** Bytes of each account that this process is receiving. */
  readonly #arriving = new Map<string, number>()

  constructor(records: Records, updates: AtomicUpdates, maxBytes: number) {
    this.#records = records
    this.#updates = updates
    this.#maxBytes = maxBytes
  }

  /**
   * Passes bytes on until the account has no room for more. Counts bytes that arrive concurrently in this process.
   *
   * @param spare versions of the account that will be removed to make room
   * @throws GatewayError `QUOTA`
   */
  async *within(
    bytes: AsyncIterable<Uint8Array>,
    account: string,
    spare: readonly { readonly size: number }[],
  ): AsyncGenerator<Uint8Array> {
    const sizes = await this.#sizesOf(account)
    const room = this.#maxBytes - sum(sizes) + sum(spare.map(({ size }) => size))
    if (sizes.length - spare.length >= MAX_VERSIONS) throw this.#noRoom()
    let own = 0
    try {
      for await (const chunk of bytes) {
        own += chunk.byteLength
        const arriving = (this.#arriving.get(account) ?? 0) + chunk.byteLength
        this.#arriving.set(account, arriving)
        if (arriving > room) throw this.#noRoom()
        yield chunk
      }
    } finally {
      const left = (this.#arriving.get(account) ?? 0) - own
      if (left > 0) this.#arriving.set(account, left)
      else this.#arriving.delete(account)
    }
  }

  /**
   * Counts a version. It is counted before the limits are checked, so that two processes cannot exceed them together. Both
   * may be refused then.
   *
   * @throws GatewayError `QUOTA`
   */
  take({ account, blobId, size }: SizedVersion, ttlMs: number): Promise<void> {
    return this.#updates.inTurn(sizeKey(account, ''), async () => {
      await this.#records.put(sizeKey(account, blobId), size, { ttlMs })
      const sizes = await this.#sizesOf(account)
      if (sum(sizes) <= this.#maxBytes && sizes.length <= MAX_VERSIONS) return
      await this.free({ account, blobId })
      throw this.#noRoom()
    })
  }

  async free({ account, blobId }: Omit<SizedVersion, 'size'>): Promise<void> {
    await this.#records.delete(sizeKey(account, blobId))
  }

  async #sizesOf(account: string): Promise<readonly number[]> {
    const sizes: number[] = []
    for await (const { value } of listAll(this.#records, sizeKey(account, ''))) {
      sizes.push(typeof value === 'number' ? value : 0)
    }
    return sizes
  }

  #noRoom(): GatewayError {
    const message = `No room for this file: the limits are ${this.#maxBytes} bytes and ${MAX_VERSIONS} versions. Wait until older files expire.`
    return new GatewayError('QUOTA', message)
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

function sizeKey(account: string, blobId: string): string {
  return `artifacts/of/${account}/${blobId}`
}

/** Maximum number of attempts while other processes change the same record. */
const MAX_TRIES = 100

/** Change of a value: a new value, its deletion, or none. */
export type Change<Result> =
  | { readonly put: unknown; readonly result: Result }
  | { readonly remove: true; readonly result: Result }
  | { readonly result: Result }

/**
 * Reads, decides and writes a record as one step. Updates of one record in this process run one after the other, so that
 * the process does not compete with itself.
 */
export class AtomicUpdates {
  readonly #records: Records
  readonly #last = new Map<string, Promise<unknown>>()

  constructor(records: Records) {
    this.#records = records
  }

  /** Writes nothing if `decide` throws. @throws the error of `decide`; GatewayError `UNAVAILABLE` */
  update<Result>(key: string, decide: (value: unknown) => Change<Result>): Promise<Result> {
    return this.inTurn(key, () => this.#try(key, decide))
  }

  /** Runs work after all earlier work with the same key. */
  inTurn<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
    const done = (this.#last.get(key) ?? Promise.resolve()).then(work)
    const settled = done
      .catch(() => {})
      .finally(() => {
        if (this.#last.get(key) === settled) this.#last.delete(key)
      })
    this.#last.set(key, settled)
    return done
  }

  async #try<Result>(key: string, decide: (value: unknown) => Change<Result>): Promise<Result> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const before = await this.#records.get(key)
      const change = decide(before?.value)
      if ('put' in change) {
        const ifVersion = before?.version ?? null
        if ((await this.#records.put(key, change.put, { ifVersion })) !== undefined) {
          return change.result
        }
      } else if ('remove' in change && before) {
        if (await this.#records.delete(key, before.version)) return change.result
      } else {
        return change.result
      }
    }
    throw new GatewayError(
      'UNAVAILABLE',
      'Too many writers change the same file at once: try again',
    )
  }
}
