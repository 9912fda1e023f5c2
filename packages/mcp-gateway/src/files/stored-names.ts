// The records of files: one for each name, with its versions.
import { z } from 'zod'
import { GatewayError } from '../errors.ts'
import type { Clock } from '../internal/clock.ts'
import { listAll, type ListedRecord, type Records } from '../store/gateway-store.ts'
import type { Scope } from './scopes.ts'
import { decodedName, encodedName } from './uri.ts'

/** A name in a scope. */
export interface Place {
  readonly scope: Scope
  readonly name: string
}

export interface NewVersion {
  /** Id of its bytes. */
  readonly blobId: string
  /** hex */
  readonly sha256: string
  /** bytes */
  readonly size: number
  readonly mimeType: string
  /** Run that wrote it. `undefined` for an upload. */
  readonly runId?: string | undefined
  /** The agent that wrote it. */
  readonly agentId?: string | undefined
  /** Milliseconds since 1970. */
  readonly createdAt: number
  readonly expiresAt: number
}

export interface StoredVersion extends NewVersion {
  readonly version: number
}

/** A name as one record, so that versions are added and removed in one step. */
export interface StoredName {
  /** Number of the next version. */
  readonly next: number
  /** Oldest first. */
  readonly versions: readonly StoredVersion[]
}

const shape: z.ZodType<StoredName> = z.object({
  next: z.int(),
  versions: z.array(
    z.object({
      version: z.int(),
      blobId: z.string(),
      sha256: z.string(),
      size: z.int(),
      mimeType: z.string(),
      runId: z.string().optional(),
      agentId: z.string().optional(),
      createdAt: z.number(),
      expiresAt: z.number(),
    }),
  ),
})

/** Maximum number of attempts while other writers change the same name. */
const MAX_TRIES = 100

/** Names without their expired versions. A record ends with its last version. */
export class StoredNames {
  readonly #records: Records
  readonly #clock: Clock

  constructor(records: Records, clock: Clock) {
    this.#records = records
    this.#clock = clock
  }

  async get(place: Place): Promise<StoredName | undefined> {
    return this.#live((await this.#records.get(keyOf(place)))?.value)
  }

  /** Yields all names of a scope, in the order of their escaped form. */
  async *in(scope: Scope): AsyncGenerator<Place & { readonly stored: StoredName }> {
    for await (const row of listAll(this.#records, keyOf({ scope, name: '' }))) {
      yield* this.#read(scope, row)
    }
  }

  /** Returns names of a scope that begin with `start`, from the first `limit` records. */
  async begunBy({ scope, name: start }: Place, limit: number): Promise<readonly string[]> {
    const rows = await this.#records.list(keyOf({ scope, name: start }), { limit })
    return rows.flatMap((row) => this.#read(scope, row)).map(({ name }) => name)
  }

  /** Returns all versions that are counted in the account of a scope. */
  async countedWith({ account }: Scope): Promise<readonly StoredVersion[]> {
    const versions: StoredVersion[] = []
    for await (const { value } of listAll(this.#records, prefixOf(account))) {
      versions.push(...(this.#live(value)?.versions ?? []))
    }
    return versions
  }

  /**
   * Reads, decides and writes a name as one step. A name without versions is deleted.
   *
   * @throws GatewayError `UNAVAILABLE`
   */
  async update<Decision extends { readonly put?: StoredName }>(
    place: Place,
    decide: (stored: StoredName | undefined) => Decision,
  ): Promise<Decision> {
    const key = keyOf(place)
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const found = await this.#records.get(key)
      const decision = decide(this.#live(found?.value))
      const { put } = decision
      if (put === undefined) return decision
      if (put.versions.length === 0) {
        if (await this.#records.delete(key, found?.version)) return decision
        continue
      }
      const now = this.#clock.now()
      const ttlMs = Math.max(...put.versions.map(({ expiresAt }) => expiresAt - now))
      const options = { ttlMs, ifVersion: found?.version ?? null }
      if ((await this.#records.put(key, put, options)) !== undefined) return decision
    }
    const text = 'Too many writers change the same file at once: try again'
    throw new GatewayError('UNAVAILABLE', text)
  }

  #read(scope: Scope, { key, value }: ListedRecord) {
    const name = decodedName(key.slice(keyOf({ scope, name: '' }).length))
    const stored = this.#live(value)
    return name === undefined || !stored ? [] : [{ scope, name, stored }]
  }

  /** `undefined`: all versions have expired. */
  #live(value: unknown): StoredName | undefined {
    const stored = shape.safeParse(value).data
    const now = this.#clock.now()
    const versions = stored?.versions.filter(({ expiresAt }) => expiresAt > now) ?? []
    return stored && versions.length > 0 ? { ...stored, versions } : undefined
  }
}

function keyOf({ scope: { account, id }, name }: Place): string {
  return `${prefixOf(account)}${id}/${encodedName(name)}`
}

function prefixOf(account: string): string {
  return `files/name/${account}/`
}
