import { McpClientError, SessionInfoFactory } from '@x/mcp-client'
import { isRecord } from './is-record.ts'

/** What is looked at: all that would else protect or tell apart nothing where it is misspelt. */
interface CheckedOptions {
  readonly approve?: unknown
  readonly onNameCollision?: unknown
  readonly onServerError?: unknown
  readonly onToolError?: unknown
  readonly pin?: unknown
  readonly session?: unknown
}

interface Rule {
  readonly words: readonly string[]
  readonly isOther?: (value: unknown) => boolean
  readonly other?: string
}

const isFunction = (value: unknown): boolean => typeof value === 'function'

const RULES: Readonly<Record<keyof CheckedOptions, Rule>> = {
  approve: { words: ['destructive'], isOther: isFunction, other: 'a function' },
  onNameCollision: { words: ['suffix', 'prefix-server', 'throw'] },
  onServerError: { words: ['skip', 'throw'], isOther: isFunction, other: 'a function' },
  onToolError: { words: ['message', 'throw'], isOther: isFunction, other: 'a function' },
  pin: { words: ['first-use'], isOther: isRecord, other: 'what pinnedToolsFrom() gives' },
  session: {
    words: ['run', 'thread', 'shared'],
    isOther: (value) => value instanceof SessionInfoFactory || hasCreateSession(value),
    other: 'a SessionInfoFactory',
  },
}

/**
 * Refuses options that say nothing we know. The compiler does so as well; settings that come from a file,
 * or from JavaScript, do not pass it.
 *
 * @throws {McpClientError} `CONFIG`, naming the option and what it takes
 */
export function assertOptions(options: CheckedOptions): void {
  for (const [name, { words, isOther, other }] of Object.entries(RULES)) {
    const value: unknown = Object.entries(options).find(([key]) => key === name)?.[1]
    if (value === undefined || words.some((word) => word === value) || isOther?.(value) === true) {
      continue
    }
    const takes = [...words.map((word) => `'${word}'`), ...(other === undefined ? [] : [other])]
    throw misfit(name, takes.join(' or '), value)
  }
}

/** @throws {McpClientError} `CONFIG` for what is no set of servers by name */
export function assertServers(servers: unknown): void {
  if (!isRecord(servers)) throw misfit('servers', '{ [name]: config }', servers)
  for (const [name, config] of Object.entries(servers)) {
    if (!isRecord(config)) throw misfit(`servers.${name}`, 'an object like { url }', config)
  }
}

function misfit(place: string, takes: string, value: unknown): McpClientError {
  const given = typeof value === 'string' ? `"${value}"` : value === null ? 'null' : typeof value
  return new McpClientError('CONFIG', `${place}: expected ${takes}, got ${given}`, {
    server: 'all',
    outcome: 'not-executed',
  })
}

/** One of another copy of the package. */
function hasCreateSession(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'createSession' in value
}
