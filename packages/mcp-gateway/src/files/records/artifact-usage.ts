import { z } from 'zod'
import { GatewayError } from '../../errors.ts'
import type { Values } from '../../store/gateway-store.ts'
import type { AtomicUpdates } from './atomic-updates.ts'

/** What one account may have. */
export interface ArtifactQuota {
  /** Bytes of all its versions together. @default 1_073_741_824 */
  readonly bytesPerPrincipal: number
  /** How many versions there may be, of all names together. @default 1000 */
  readonly countPerPrincipal: number
}

export interface Usage {
  readonly bytes: number
  readonly count: number
}

const Usage: z.ZodType<Usage> = z.object({ bytes: z.number(), count: z.number() })
const NOTHING: Usage = { bytes: 0, count: 0 }

/** What each account has, and whether there is room for more. */
export class ArtifactUsage {
  readonly #values: Values
  readonly #updates: AtomicUpdates
  readonly #quota: ArtifactQuota
  /** Bytes that arrive in this process right now. */
  readonly #arriving = new Map<string, number>()

  constructor(values: Values, updates: AtomicUpdates, quota: ArtifactQuota) {
    this.#values = values
    this.#updates = updates
    this.#quota = quota
  }

  async of(account: string): Promise<Usage> {
    return usageFrom((await this.#values.get(usageKey(account)))?.value)
  }

  /** @throws GatewayError `QUOTA`, and then nothing is counted */
  async add(account: string, bytes: number): Promise<void> {
    await this.#updates.update(usageKey(account), (value) => {
      const usage = usageFrom(value)
      const next = { bytes: usage.bytes + bytes, count: usage.count + 1 }
      const { bytesPerPrincipal, countPerPrincipal } = this.#quota
      if (next.bytes > bytesPerPrincipal || next.count > countPerPrincipal)
        throw noRoom(this.#quota)
      return { put: next, result: undefined }
    })
  }

  async subtract(account: string, freed: Usage): Promise<void> {
    if (freed.count === 0) return
    await this.#updates.update(usageKey(account), (value) => {
      const usage = usageFrom(value)
      const bytes = Math.max(0, usage.bytes - freed.bytes)
      const count = Math.max(0, usage.count - freed.count)
      return count === 0
        ? { remove: true, result: undefined }
        : { put: { bytes, count }, result: undefined }
    })
  }

  /**
   * Bytes on their way in: ends them as soon as there is no room for more, with what arrives at the same
   * time counted in. `spare`: what will be freed to make room.
   *
   * @throws GatewayError `QUOTA`
   */
  async *within(
    account: string,
    bytes: AsyncIterable<Uint8Array>,
    spare: Usage,
  ): AsyncGenerator<Uint8Array> {
    const usage = await this.of(account)
    const room = this.#quota.bytesPerPrincipal - usage.bytes + spare.bytes
    if (usage.count - spare.count >= this.#quota.countPerPrincipal) throw noRoom(this.#quota)
    let own = 0
    try {
      for await (const chunk of bytes) {
        own += chunk.byteLength
        const arriving = (this.#arriving.get(account) ?? 0) + chunk.byteLength
        this.#arriving.set(account, arriving)
        if (arriving > room) throw noRoom(this.#quota)
        yield chunk
      }
    } finally {
      const left = (this.#arriving.get(account) ?? 0) - own
      if (left > 0) this.#arriving.set(account, left)
      else this.#arriving.delete(account)
    }
  }

  /** Puts right what a killed process may have counted wrong. Does nothing if it changed meanwhile. */
  async correct(account: string, count: () => Promise<Usage>): Promise<void> {
    const before = await this.#values.get(usageKey(account))
    const usage = await count()
    const ifVersion = before?.version ?? null
    await this.#values.put(usageKey(account), usage, { ifVersion })
  }
}

function usageKey(account: string): string {
  return `artifacts/usage/${account}`
}

function usageFrom(value: unknown): Usage {
  return Usage.safeParse(value).data ?? NOTHING
}

function noRoom({ bytesPerPrincipal, countPerPrincipal }: ArtifactQuota): GatewayError {
  const message = `No room for more files: ${bytesPerPrincipal} bytes and ${countPerPrincipal} versions are allowed, and files end by themselves`
  return new GatewayError('QUOTA', message)
}
