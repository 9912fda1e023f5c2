import {
  isJSONRPCErrorResponse,
  isJSONRPCResultResponse,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type JSONRPCMessage,
  type Result,
  type Transport,
} from '@modelcontextprotocol/server'
import type { Skill, SkillCatalog } from '@modelcontextprotocol/server/ext/skills'
import type { Clock } from '../internal/clock.ts'

export type { Skill }

/** Name of the extension, in the capabilities of the server (SEP-2640). */
export const SKILLS_EXTENSION = 'io.modelcontextprotocol/skills'
/** All URIs of skills begin with this. */
export const SKILL_SCHEME = 'skill://'
/** Time after which the folder is scanned again before skills are listed. */
export const SCAN_MS = 5000

export interface SkillFolderOptions {
  readonly folder: string
  readonly clock: Clock
  readonly onWarning: (message: string, cause?: unknown) => void
}

/** A scanned folder, and the server object of the SDK that answers for it. */
interface Loaded {
  readonly catalog: SkillCatalog
  readonly request: (method: string, params: Readonly<Record<string, unknown>>) => Promise<Result>
}

/** A folder of skills (SEP-2640). The SDK reads it, and checks each file against the published entry. */
export class SkillFolder {
  readonly #options: SkillFolderOptions
  #loading: Promise<Loaded> | undefined
  #scannedAt = 0
  #scanning: Promise<void> | undefined

  constructor(options: SkillFolderOptions) {
    this.#options = options
  }

  /** The entries of all skills, sorted by URI, as the folder was at most 5 s ago. */
  async entries(): Promise<readonly Skill[]> {
    const { catalog } = await this.#load()
    if (this.#options.clock.now() - this.#scannedAt >= SCAN_MS) {
      this.#scanning ??= this.#scan(catalog).finally(() => {
        this.#scanning = undefined
      })
      await this.#scanning
    }
    return catalog.entries
  }

  /**
   * Answers a request about skills or their files.
   *
   * @throws ProtocolError of the extension
   */
  async request(method: string, params: Readonly<Record<string, unknown>>): Promise<Result> {
    const { request } = await this.#load()
    return request(method, params)
  }

  /** Reads the folder at the first use. After a failure, the next request tries again. */
  async #load(): Promise<Loaded> {
    this.#loading ??= load(this.#options)
    try {
      const loaded = await this.#loading
      this.#scannedAt ||= this.#options.clock.now()
      return loaded
    } catch (cause) {
      this.#loading = undefined
      this.#options.onWarning('The folder of skills cannot be read', cause)
      throw new ProtocolError(ProtocolErrorCode.InternalError, 'Skills cannot be read now')
    }
  }

  /** After a failure, the skills of the last scan are served. */
  async #scan(catalog: SkillCatalog): Promise<void> {
    const { clock, onWarning } = this.#options
    try {
      await catalog.reload()
    } catch (cause) {
      onWarning('The folder of skills cannot be read again: the skills stay as they were', cause)
    }
    this.#scannedAt = clock.now()
  }
}

async function load({ folder, onWarning }: SkillFolderOptions): Promise<Loaded> {
  // Gateways without skills do not load it.
  const { loadSkills } = await import('@modelcontextprotocol/server/ext/skills/node')
  const catalog = await loadSkills(folder, {
    pageSize: Infinity, // callers see different skills, so pages are made from those that they see
    onWarning: ({ path, message }) => onWarning(`Skill file ${path}: ${message}`),
  })
  const server = new McpServer({ name: 'skills', version: '0' })
  catalog.attach(server)
  return { catalog, request: await connect(server) }
}

/** Revision in which the server object answers. The edges of the gateway add what later revisions need. */
const ANSWERS_AS = '2025-11-25'

/** Opens a server object of the SDK in this process. Returns the function that sends a request to it. */
async function connect(server: McpServer): Promise<Loaded['request']> {
  const open = new Map<unknown, PromiseWithResolvers<Result>>()
  const transport: Transport = {
    async start() {},
    async close() {},
    async send(message: JSONRPCMessage) {
      if (isJSONRPCResultResponse(message)) open.get(message.id)?.resolve(message.result)
      if (!isJSONRPCErrorResponse(message)) return
      const { code, message: text, data } = message.error
      open.get(message.id)?.reject(new ProtocolError(code, text, data))
    },
  }
  await server.connect(transport)
  let lastId = 0
  const request: Loaded['request'] = async (method, params) => {
    const id = ++lastId
    const answer = Promise.withResolvers<Result>()
    open.set(id, answer)
    try {
      transport.onmessage?.({ jsonrpc: '2.0', id, method, params })
      return await answer.promise
    } finally {
      open.delete(id)
    }
  }
  const clientInfo = { name: 'gateway', version: '0' }
  await request('initialize', { protocolVersion: ANSWERS_AS, capabilities: {}, clientInfo })
  transport.onmessage?.({ jsonrpc: '2.0', method: 'notifications/initialized' })
  return request
}
