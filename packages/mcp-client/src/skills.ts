// Everything exported here is public API. Needs `@modelcontextprotocol/client`, which the rest of the package does not.
import './runtime-check.ts' // stays the first import
import { createHash } from 'node:crypto'
import { Client, SdkError, SdkErrorCode } from '@modelcontextprotocol/client'
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client'
import {
  SKILL_LIMITS,
  SkillsClient,
  SkillVerificationError,
} from '@modelcontextprotocol/client/ext/skills'
import type { InvalidSkillEntry, Skill, SkillFile } from '@modelcontextprotocol/client/ext/skills'
import { canonicalJson, LONGEST_MS } from '@x/internal'
import { Deadline } from './deadline.ts'
import { McpClientError } from './errors.ts'
import type { OperationOutcome } from './errors.ts'
import { DEFAULT_TIMEOUT_MS } from './options.ts'
import type { CallOptions } from './options.ts'

export type { Skill, SkillFile }

/** Limits of one operation, with all its requests. */
type Limits = Pick<CallOptions, 'signal' | 'timeoutMs'>

/** The two client methods that skills need. `McpClient` and `McpTools.server()` have them. */
export interface McpSkillSource<Options extends Limits = CallOptions> {
  serverCapabilities(options?: Options): Promise<Readonly<Record<string, unknown>>>
  request(
    request: { readonly method: string; readonly params?: Readonly<Record<string, unknown>> },
    options?: Options & { readonly idempotent?: boolean | undefined },
  ): Promise<Readonly<Record<string, unknown>>>
}

/** Skills of one server. Entries that break a rule are in `invalid`, with the reason. */
export interface SkillList {
  readonly skills: readonly Skill[]
  readonly invalid: readonly Pick<InvalidSkillEntry, 'uri' | 'reason'>[]
}

/**
 * The skills of one server (SEP-2640, `io.modelcontextprotocol/skills`). Lists, gets and reads them, and checks each
 * file against the entry of its skill: listed, size, digest, and the frontmatter of `SKILL.md`. Never executes a
 * skill, and never reads a file before `read()` asks for it.
 *
 * @throws McpClientError `SKILL_UNUSABLE` for an entry or a file that fails a check, and for a server without skills;
 * the error of the client for other failures
 * @example
 * ```ts
 * import { McpClient } from '@x/mcp-client'
 * import { McpSkills } from '@x/mcp-client/skills'
 *
 * await using client = new McpClient('https://shop.example/mcp')
 * const skills = new McpSkills(client)
 * const { skills: entries } = await skills.list() // names and descriptions; reads no file
 * for (const entry of entries) console.log((await skills.read(entry)).body)
 * ```
 */
export class McpSkills<Options extends Limits = CallOptions> {
  /**
   * Label of the server on this side: that of the client. A skill is identified by this label and its URI, never by a
   * name that the server gives itself.
   */
  readonly server: string
  readonly #source: McpSkillSource<Options>

  constructor(
    source: McpSkillSource<Options> &
      ({ readonly name: string } | { status(): { readonly server: string } }),
  ) {
    this.server = 'name' in source ? source.name : source.status().server
    this.#source = source
  }

  /**
   * All listed skills, from all pages. Empty for a server without skills. A server may have more skills than it
   * lists: see `get()`. `timeoutMs` limits the whole list, as it does for `get()` and `read()`.
   */
  list(options?: Options): Promise<SkillList> {
    return this.#use(options, async (client) => {
      if (!client.supported) return { skills: [], invalid: [] } // the SDK would write to the console
      const { skills, invalid } = await client.list({}, UNLIMITED)
      const tooLarge = skills.flatMap((skill) => {
        const reason = excessOf(skill)
        return reason === undefined ? [] : [{ uri: skill.uri, reason }]
      })
      return {
        skills: skills.filter((skill) => excessOf(skill) === undefined),
        invalid: [...invalid, ...tooLarge],
      }
    })
  }

  /** The current entry of a skill by the URI of its `SKILL.md`, also of a skill that is not listed. */
  get(uri: string, options?: Options): Promise<Skill> {
    return this.#use(options, async (client) => {
      const { skill } = await client.get(uri, UNLIMITED)
      this.#assertBounded(skill)
      return skill
    })
  }

  /**
   * Reads one file of a skill, and checks it against the entry. The default is its `SKILL.md`. Files that the entry
   * does not list are refused before any request. Of a `"dynamic"` skill, only the frontmatter can be checked:
   * `verified` is false.
   *
   * @param skill from `list()` or `get()`. It may be older than the server: a changed file then fails the check
   * @param path relative to the folder of the skill, such as `references/FORMS.md`, or an absolute URI
   */
  read(skill: Skill, path?: string, options?: Options): Promise<SkillFile> {
    return this.#use(options, async (client) => {
      this.#assertBounded(skill)
      const file = await client.read(skill, path, UNLIMITED)
      const { byteLength } = file.bytes
      if (byteLength > SKILL_LIMITS.bytes) throw this.#unusable(tooManyBytes(file.uri, byteLength))
      return file
    })
  }

  /**
   * Text for a stored approval. It is equal only for the same skill of the same server with exactly the same files.
   * Undefined for a `"dynamic"` skill, whose files an approval cannot name.
   */
  approvalKey({ uri, resources }: Skill): string | undefined {
    if (resources === 'dynamic') return undefined
    // Canonical JSON sorts by key, so the order of the entry does not matter.
    const files = Object.fromEntries(resources.map((file) => [file.uri, file.digest]))
    const text = canonicalJson([this.server, uri, files])
    return `sha256:${createHash('sha256').update(text).digest('hex')}`
  }

  /** Each operation has a client of the SDK of its own, because its options belong to one call. */
  async #use<T>(
    options: Options | undefined,
    use: (client: SkillsClient) => Promise<T>,
  ): Promise<T> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal }: Limits = options ?? {}
    using deadline = new Deadline(timeoutMs, signal)
    const limited = Object.assign({}, options, { signal: deadline.signal })
    const capabilities = await this.#source.serverCapabilities(limited)
    const client = new Client({ name: 'skills', version: '0' })
    await client.connect(
      transportTo({ server: this.server, source: this.#source }, capabilities, limited),
    )
    try {
      return await use(new SkillsClient(client, { skipInvalid: true }))
    } catch (error) {
      throw this.#toError(error)
    } finally {
      await client.close()
    }
  }

  #assertBounded(skill: Skill): void {
    const excess = excessOf(skill)
    if (excess !== undefined) throw this.#unusable(excess)
  }

  #toError(error: unknown): unknown {
    if (error instanceof SkillVerificationError) {
      return this.#unusable(error.message, { cause: error, outcome: outcomeOf(error) })
    }
    // The SDK throws a TypeError for an entry that breaks a rule, before any request.
    if (error instanceof TypeError) return this.#unusable(error.message, { cause: error })
    if (!(error instanceof SdkError)) return error
    if (error.code === SdkErrorCode.CapabilityNotSupported) {
      return this.#unusable('the server has no skills', { cause: error })
    }
    if (error.code !== SdkErrorCode.ListPaginationExceeded) {
      return this.#unusable(error.message, { cause: error, outcome: 'executed' })
    }
    return invalidList(this.server, error.message, error)
  }

  #unusable(
    reason: string,
    { outcome = 'not-executed', ...about }: ErrorOptions & { outcome?: OperationOutcome } = {},
  ): McpClientError {
    const message = `A skill of MCP server "${this.server}" cannot be used: ${reason}`
    return new McpClientError('SKILL_UNUSABLE', message, { server: this.server, outcome, ...about })
  }
}

function invalidList(server: string, reason: string, cause?: unknown): McpClientError {
  const about = { server, cause, outcome: 'executed' } as const
  return new McpClientError('INVALID_LIST', `MCP server "${server}": ${reason}`, about)
}

/** A file that is not listed is refused before it is requested. */
function outcomeOf({ reason }: SkillVerificationError): OperationOutcome {
  return reason === 'unlisted' ? 'not-executed' : 'executed'
}

/** Why a skill is larger than a host has to accept (SEP-2640, "Limits"). */
function excessOf({ uri, resources }: Skill): string | undefined {
  if (resources === 'dynamic') return undefined
  const { files: maxFiles, bytes: maxBytes } = SKILL_LIMITS
  if (resources.length > maxFiles) {
    return `${uri} has ${resources.length} files, more than ${maxFiles}`
  }
  const bytes = resources.reduce((sum, { size }) => sum + size, 0)
  return bytes > maxBytes ? tooManyBytes(uri, bytes) : undefined
}

function tooManyBytes(uri: string, bytes: number): string {
  return `${uri} has ${bytes} bytes, more than ${SKILL_LIMITS.bytes}`
}

/** The client that sends the requests has the limits. */
const UNLIMITED = { timeout: LONGEST_MS } as const

/** Bytes of all pages of one list. */
const MAX_LIST_BYTES = 2 ** 25

/** Revision in which the SDK's client reads results. There, the fields of caches may be absent. */
const READ_AS = '2025-11-25'

/**
 * Lets a client of the SDK send its requests through a client that is connected already. A request that fails rejects
 * with the error of that client.
 */
function transportTo<Options extends Limits>(
  { server, source }: { readonly server: string; readonly source: McpSkillSource<Options> },
  capabilities: Readonly<Record<string, unknown>>,
  options: Options,
): Transport {
  let listBytes = 0
  const transport: Transport = {
    async start() {},
    async close() {
      transport.onclose?.()
    },
    async send(message: JSONRPCMessage) {
      if (!('id' in message) || !('method' in message)) return
      const { id, method, params } = message
      const request = params === undefined ? { method } : { method, params }
      const result =
        method === 'initialize'
          ? { protocolVersion: READ_AS, capabilities, serverInfo: { name: '', version: '' } }
          : await source.request(request, Object.assign({ idempotent: true }, options))
      if (method === 'skills/list') {
        listBytes += Buffer.byteLength(JSON.stringify(result))
        if (listBytes > MAX_LIST_BYTES) {
          const reason = `the list of skills has more than ${MAX_LIST_BYTES} bytes`
          throw invalidList(server, reason)
        }
      }
      transport.onmessage?.({ jsonrpc: '2.0', id, result })
    },
  }
  return transport
}
