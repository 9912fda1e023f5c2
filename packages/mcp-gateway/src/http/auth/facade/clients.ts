import { randomUUID } from 'node:crypto'

import { z } from 'zod'

import { readBounded } from '../../../internal/bounded-response.ts'
import type { GuardedFetch } from '../../../internal/guarded-fetch.ts'
import type { Values } from '../../../store/gateway-store.ts'
import { isAllowedRedirect, isSameButPort, isSameRedirect } from './redirect-uri.ts'
import { secretKey } from './secret.ts'

/** An application that may send users here. */
export interface FacadeClient {
  readonly id: string
  /** Whether codes may be sent there. */
  mayRedirectTo(uri: string): boolean
}

export interface ClientsOptions {
  readonly values: Values
  readonly guardedFetch: GuardedFetch
  /** Beside loopback. */
  readonly redirectUris: readonly string[]
  /** After somebody last signed in by it. */
  readonly registrationTtlMs: number
}

const MAX_DOCUMENT_BYTES = 65_536
const DOCUMENT_TTL_MS = 300_000
/** Anybody can register: what nobody has signed in by yet does not stay. */
const UNUSED_TTL_MS = 86_400_000
const MAX_URIS = 20

const uris = z.array(z.string()).min(1).max(MAX_URIS)
const documentShape = z.object({ client_id: z.string(), redirect_uris: uris })

/** Applications by id: registered here (RFC 7591), or known by a document at a URL that is their id. */
export class Clients {
  readonly #options: ClientsOptions

  constructor(options: ClientsOptions) {
    this.#options = options
  }

  /** @returns its id; `undefined` if codes may not be sent to one of these */
  async register(redirectUris: readonly string[]): Promise<string | undefined> {
    const { values, redirectUris: allowed } = this.#options
    if (redirectUris.length === 0 || redirectUris.length > MAX_URIS) return undefined
    if (!redirectUris.every((uri) => isAllowedRedirect(uri, allowed))) return undefined
    const id = randomUUID()
    await values.put(keyOf(id), redirectUris, { ttlMs: UNUSED_TTL_MS })
    return id
  }

  /** `undefined`: there is none. */
  async find(id: string): Promise<FacadeClient | undefined> {
    return id.startsWith('https://') ? this.#documented(id) : this.#registered(id)
  }

  /** Somebody signed in by it, or still does. */
  async keep(id: string): Promise<void> {
    const { values, registrationTtlMs } = this.#options
    await values.touch(keyOf(id), registrationTtlMs)
  }

  async #registered(id: string): Promise<FacadeClient | undefined> {
    const { values, redirectUris: allowed } = this.#options
    const found = uris.safeParse((await values.get(keyOf(id)))?.value)
    if (!found.success) return undefined
    // Looked at again: the list may have become shorter.
    const mayRedirectTo = (uri: string): boolean =>
      isSameRedirect(uri, found.data) && isAllowedRedirect(uri, allowed)
    return { id, mayRedirectTo }
  }

  /** Anybody can write such a document: it may name only what anybody may register. */
  async #documented(id: string): Promise<FacadeClient | undefined> {
    const { values, redirectUris: allowed } = this.#options
    const key = `oauth:document:${secretKey(id)}`
    const kept = uris.safeParse((await values.get(key))?.value)
    const known = kept.success ? kept.data : await this.#read(id)
    if (known === undefined) return undefined
    if (!kept.success) await values.put(key, known, { ttlMs: DOCUMENT_TTL_MS })
    const mayRedirectTo = (uri: string): boolean =>
      isSameButPort(uri, known) && isAllowedRedirect(uri, allowed)
    return { id, mayRedirectTo }
  }

  async #read(id: string): Promise<readonly string[] | undefined> {
    try {
      const response = await this.#options.guardedFetch(id, {
        headers: { accept: 'application/json' },
        redirect: 'error', // what another page says of this client, it has not said itself
      })
      const body = await readBounded(response, MAX_DOCUMENT_BYTES)
      const document = documentShape.safeParse(JSON.parse(body.toString('utf8')))
      if (!response.ok || !document.success || document.data.client_id !== id) return undefined
      return document.data.redirect_uris
    } catch {
      return undefined // who cannot be looked up is not known
    }
  }
}

function keyOf(id: string): string {
  return `oauth:client:${id}`
}
