import { hash } from 'node:crypto'

import { BoundedMap } from '@x/internal'
import { createRemoteJWKSet, customFetch, errors } from 'jose'
import type { FlattenedJWSInput, JWTVerifyGetKey } from 'jose'

import { readBounded } from '../../internal/guarded-fetch.ts'
import { TokenBuckets } from '../../store/token-buckets.ts'

const MAX_KEYS_BYTES = 1_048_576

/** Limit of one request to an issuer. Milliseconds. */
export const ISSUER_TIMEOUT_MS = 5000

/** Pause after a failed read of metadata or keys, because any token that names the issuer causes a read. */
export const PAUSE_MS = 5000

/** Reads because of unknown keys: as many at once, and then one every five seconds. */
const READS_PER_MINUTE = 12

/** Time for which a key that the issuer does not have causes no other read. */
const ABSENT_MS = 10_000

/** Number of such keys that are remembered. */
const MAX_ABSENT = 1000

export interface IssuerKeysOptions {
  readonly fetch: typeof globalThis.fetch
  /** Milliseconds since 1970. */
  readonly now: () => number
}

type Header = Parameters<JWTVerifyGetKey>[0]

/**
 * Keys of an issuer (JWKS). They are read for the first token, and again when a token names an unknown key: the issuer
 * may have changed its keys. Anybody can make up names of keys, so such reads are limited:
 *
 * - A name that a read did not find is remembered, and causes no other read for `ABSENT_MS`. So a client with an old
 *   token takes no read from others.
 * - A new name causes a read if fewer than `READS_PER_MINUTE` were made, else the token is refused. In a storm of made-up
 *   names there is a read every five seconds. Each one brings all keys, so a new key of the issuer is known by then.
 */
export class IssuerKeys {
  readonly #now: () => number
  readonly #keys: ReturnType<typeof createRemoteJWKSet>
  /** Digests of names that a read did not find, with the time at which they may be looked for again. */
  readonly #absent: Map<string, number> = new BoundedMap(MAX_ABSENT)
  readonly #reads: TokenBuckets
  /** The read in flight because of an unknown key. Resolves to false if it may not be made. */
  #reading: Promise<boolean> | undefined

  constructor(url: URL, { fetch, now }: IssuerKeysOptions) {
    this.#now = now
    this.#reads = new TokenBuckets(now)
    let askAgainAt = 0
    this.#keys = createRemoteJWKSet(url, {
      timeoutDuration: ISSUER_TIMEOUT_MS,
      cooldownDuration: Infinity, // the library alone would refuse all new keys for a time after each read
      [customFetch]: async (address, init) => {
        if (now() < askAgainAt) throw new Error('The keys could not be read a moment ago')
        try {
          const response = await fetch(address, init)
          const body = await readBounded(response, MAX_KEYS_BYTES)
          if (response.status !== 200) askAgainAt = now() + PAUSE_MS
          return new Response(Uint8Array.from(body), { status: response.status })
        } catch (error) {
          askAgainAt = now() + PAUSE_MS
          throw error
        }
      },
    })
  }

  /** The key of a token, for `jwtVerify()`. @throws JWKSNoMatchingKey; errors of the read */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    // The library reads the keys at the first use, and when they are old.
    const isRead = !this.#keys.fresh && !this.#keys.reloading
    try {
      return await this.#keys(header, token)
    } catch (error) {
      if (!isUnknown(error) || this.#isAbsent(header)) throw error
      if (isRead) throw this.#noteAbsent(header, error)
      return this.#findAfterRead(header, token, error)
    }
  }

  async #findAfterRead(header: Header, token: FlattenedJWSInput, unknown: Error) {
    // A read that began before this token came may be older than its key: it is used, but proves nothing.
    const isOwn = this.#reading === undefined
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    if (!(await this.#reading)) throw unknown
    try {
      return await this.#keys(header, token)
    } catch (error) {
      throw isOwn && isUnknown(error) ? this.#noteAbsent(header, error) : error
    }
  }

  async #read(): Promise<boolean> {
    if ((await this.#reads.take('', READS_PER_MINUTE)) > 0) return false
    await this.#keys.reload()
    return true
  }

  #isAbsent(header: Header): boolean {
    return this.#now() < (this.#absent.get(digestOf(header)) ?? 0)
  }

  #noteAbsent(header: Header, error: Error): Error {
    const name = digestOf(header)
    this.#absent.delete(name) // so that it becomes the newest one
    this.#absent.set(name, this.#now() + ABSENT_MS)
    return error
  }
}

function isUnknown(error: unknown): error is Error {
  return error instanceof errors.JWKSNoMatchingKey
}

/** A token chooses the name of its key, and its length. */
function digestOf({ alg, kid }: Header): string {
  return hash('sha256', JSON.stringify([alg, kid]))
}
