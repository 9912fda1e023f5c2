import { randomUUID } from 'node:crypto'
import { isLoopback, legible } from '@x/internal'
import type { GatewayStore, GuardedFetch } from '@x/mcp-gateway'
import { readBounded } from '@x/mcp-gateway/adapter'
import { z } from 'zod'
import { secretKey } from './grants.ts'

export interface ClientsOptions {
  readonly records: GatewayStore['records']
  readonly guardedFetch: GuardedFetch
  /** Redirect URIs that are allowed besides loopback addresses. */
  readonly redirectUris: readonly string[]
}

/** An application that asks for access, as the person sees it. */
export interface Client {
  readonly id: string
  /** Name that the client gave itself. */
  readonly name: string | undefined
  /** URL of the metadata document. `undefined`: the client registered itself here. */
  readonly documentUrl: string | undefined
}

const MAX_DOCUMENT_BYTES = 65_536
const DOCUMENT_TTL_MS = 300_000
/** Time that a registration stays after the last sign-in. */
const USED_TTL_MS = 90 * 86_400_000
/** Time that a registration stays without a sign-in. It is short because anybody can register. */
const UNUSED_TTL_MS = 86_400_000
const MAX_URIS = 20
const MAX_URI_LENGTH = 2048

const uris = z.array(z.string()).min(1).max(MAX_URIS)
const documentShape = z.object({
  client_id: z.string(),
  redirect_uris: uris,
  client_name: z.string().optional().catch(undefined),
})
const storedShape = z.object({ redirectUris: uris, name: z.string().optional() })
type Stored = z.infer<typeof storedShape>

/** Clients by id: registered here (RFC 7591), or described by a metadata document whose URL is the id. */
export class Clients {
  readonly #options: ClientsOptions

  constructor(options: ClientsOptions) {
    this.#options = options
  }

  /** Returns the new client. `undefined` if one of the redirect URIs is not allowed. */
  async register(redirectUris: readonly string[], name?: string): Promise<Client | undefined> {
    const { records } = this.#options
    if (redirectUris.length === 0 || redirectUris.length > MAX_URIS) return undefined
    if (!redirectUris.every((uri) => this.#isAllowed(uri))) return undefined
    const id = randomUUID()
    const stored = { redirectUris, name: shownName(name) }
    await records.put(keyOf(id), stored, { ttlMs: UNUSED_TTL_MS })
    return { id, name: stored.name, documentUrl: undefined }
  }

  /** Returns a client, and whether codes may be sent to a URI for it. `undefined`: the client is unknown. */
  async find(
    id: string,
    uri: string,
  ): Promise<{ readonly client: Client; readonly mayRedirect: boolean } | undefined> {
    const isDocument = id.startsWith('https://')
    if (isDocument && !isDocumentUrl(id)) return undefined
    const known = isDocument ? await this.#documented(id) : await this.#stored(keyOf(id))
    if (known === undefined) return undefined
    const { redirectUris, name } = known
    // `redirectUris` is checked also for registered clients, because the operator may have shortened it.
    const mayRedirect =
      this.#isAllowed(uri) &&
      (isDocument ? isSameButPort(uri, redirectUris) : redirectUris.includes(uri))
    return { client: { id, name, documentUrl: isDocument ? id : undefined }, mayRedirect }
  }

  /** Extends the registration of a client after a sign-in or a renewal. */
  async keep(id: string): Promise<void> {
    await this.#options.records.touch(keyOf(id), USED_TTL_MS)
  }

  /** Anybody can write a metadata document, so it allows no other URIs than a registration. */
  async #documented(id: string): Promise<Stored | undefined> {
    const key = `oauth:document:${secretKey(id)}`
    const cached = await this.#stored(key)
    if (cached) return cached
    const known = await this.#read(id)
    if (known) await this.#options.records.put(key, known, { ttlMs: DOCUMENT_TTL_MS })
    return known
  }

  async #stored(key: string): Promise<Stored | undefined> {
    return storedShape.safeParse((await this.#options.records.get(key))?.value).data
  }

  async #read(id: string): Promise<Stored | undefined> {
    try {
      const response = await this.#options.guardedFetch(id, {
        headers: { accept: 'application/json' },
        redirect: 'error', // the document must be at the URL that is the id
      })
      const body = await readBounded(response, MAX_DOCUMENT_BYTES)
      const document = documentShape.safeParse(JSON.parse(body.toString('utf8')))
      if (!response.ok || !document.success || document.data.client_id !== id) return undefined
      const { redirect_uris: redirectUris, client_name } = document.data
      return { redirectUris, name: shownName(client_name) }
    } catch {
      return undefined // a client without a readable document is unknown
    }
  }

  /** Allows listed URIs, and http servers on the user's machine (RFC 8252 section 7.3). */
  #isAllowed(uri: string): boolean {
    const isListed = this.#options.redirectUris.includes(uri)
    return isUnambiguous(uri) && (isListed || isLoopbackRedirect(uri))
  }
}

/** Loopback URIs may differ in the port: a document cannot know which one is free (RFC 8252 section 7.3). */
function isSameButPort(uri: string, documented: readonly string[]): boolean {
  if (documented.includes(uri)) return true
  if (!isUnambiguous(uri) || !isLoopbackRedirect(uri)) return false
  return documented.some(
    (each) => isLoopbackRedirect(each) && withoutPort(each) === withoutPort(uri),
  )
}

/** Refuses spellings that two parsers could read in two ways, and fragments (RFC 6749 section 3.1.2). */
function isUnambiguous(uri: string): boolean {
  const isPlain = /^[\x21-\x7e]+$/.test(uri) && !/[\\#]/.test(uri)
  return uri.length <= MAX_URI_LENGTH && isPlain && URL.canParse(uri) && !NO_DESTINATION.test(uri)
}

/** Schemes whose URLs are content or a script, not a place that a code could be sent to. */
const NO_DESTINATION = /^(?:javascript|vbscript|data|blob|about|file|view-source):/i

/** Refuses URLs that a person cannot read, such as `https://known.example@other.example/`. */
function isDocumentUrl(id: string): boolean {
  if (!isUnambiguous(id)) return false
  const { username, password } = new URL(id)
  return username === '' && password === ''
}

function isLoopbackRedirect(uri: string): boolean {
  if (!URL.canParse(uri)) return false
  const { protocol, hostname, username, password } = new URL(uri)
  return protocol === 'http:' && username === '' && password === '' && isLoopback(hostname)
}

function withoutPort(uri: string): string {
  const url = new URL(uri)
  url.port = ''
  return url.href
}

const MAX_NAME_LENGTH = 80

/** Characters that leave no mark, besides those that `legible()` removes: such as Hangul fillers, and blank Braille. */
const BLANK = /[\p{Default_Ignorable_Code_Point}\u2800]/gu

/** Returns the name of a client as a person can judge it: one short line without hidden characters. */
function shownName(name: string | undefined): string | undefined {
  const line = legible(name ?? '')
    .replaceAll(BLANK, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
  const characters = Array.from(line)
  if (characters.length <= MAX_NAME_LENGTH) return line === '' ? undefined : line
  return `${characters.slice(0, MAX_NAME_LENGTH - 1).join('')}…`
}

function keyOf(id: string): string {
  return `oauth:client:${id}`
}
