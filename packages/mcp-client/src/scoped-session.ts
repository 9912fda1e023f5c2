import type { Era } from '@x/mcp-transport'
import { ResultSchema } from '@modelcontextprotocol/sdk/types.js'
import type { CallToolResult, Tool } from '@modelcontextprotocol/sdk/types.js'
import type { ClientEvents } from './client-events.ts'
import { ClientLife } from './life/client-life.ts'
import type { CallOptions, ScopedOptions } from './client-options.ts'
import { LONGEST_MS } from './deadline.ts'
import { McpClientError } from './mcp-client-error.ts'
import { OperationRunner } from './operations/operation-runner.ts'
import type { Operation } from './operations/operation-runner.ts'
import { outputFault } from './operations/output-validator.ts'
import { allPages, listRequest } from './operations/pages.ts'
import type { Page } from './operations/pages.ts'
import type { McpServerConfig } from './server-config.ts'
import { SessionCalls } from './session-calls.ts'
import { SessionNews } from './session-news.ts'
import { SessionSettings } from './session-settings.ts'
import type { SessionStatus } from './telemetry/client-status.ts'
import { ToolList } from './operations/tool-list.ts'
import { toolPageFrom } from './operations/tool-page.ts'

export interface ScopedSessionOptions {
  readonly config: McpServerConfig
  readonly options: ScopedOptions
  /** How messages name the server. */
  readonly server: string
  readonly events: ClientEvents
  /** Told of each session that was opened or resumed. */
  readonly onOpened: (era: Era | undefined) => void
}

/**
 * Everything that a client has for one scope: the session, what is known through it, and what it was
 * told. Nothing of it is ever seen in another scope.
 */
export class ScopedSession {
  readonly life: ClientLife
  readonly settings: SessionSettings = new SessionSettings()
  readonly tools: ToolList
  /** The calls that a server may ask questions in; absent where it has nobody to ask. */
  readonly calls: SessionCalls | undefined
  readonly #runner: OperationRunner
  readonly #server: string
  readonly #events: ClientEvents

  constructor({ config, options, server, events, onOpened }: ScopedSessionOptions) {
    this.#server = server
    this.#events = events
    this.tools = new ToolList(
      (onAsked, signal) => this.#readTools(onAsked, signal),
      (changes) => events.emit('toolsChanged', changes),
    )
    this.calls = options.handlers === undefined ? undefined : new SessionCalls(options.scope)
    this.life = new ClientLife({
      config,
      options,
      server,
      events,
      news: new SessionNews({ server, events, tools: this.tools, calls: this.calls }),
      calls: this.calls,
      onOpened,
      restore: ({ client }, signal) =>
        this.settings.restore(client, { signal, timeout: LONGEST_MS }),
      onDisposing: (reason) => {
        this.tools.clear(reason)
        this.settings.clear()
      },
    })
    this.#runner = new OperationRunner({ life: this.life, options, server, events })
  }

  get status(): SessionStatus {
    return { ...this.life.status, tools: this.tools.size }
  }

  /** The limit of an operation that is given none, in milliseconds. */
  get timeoutMs(): number {
    return this.#runner.timeoutMs
  }

  run<T>(operation: Operation<T>, options: CallOptions): Promise<T> {
    return this.#runner.run(operation, options)
  }

  isDeclaredIdempotent(tool: string): boolean {
    const annotations = this.tools.find(tool)?.annotations
    return annotations?.readOnlyHint === true || annotations?.idempotentHint === true
  }

  /** The result, if it fits the tool's output schema as far as that is known. */
  checked(name: string, result: CallToolResult): CallToolResult {
    const tool = this.tools.find(name)
    const fault = tool === undefined ? undefined : outputFault(tool, result)
    if (fault === undefined) return result
    const message = `tool "${name}" of MCP server "${this.#server}" has run, but its output ${fault}`
    throw new McpClientError('INVALID_OUTPUT', message, {
      server: this.#server,
      tool: name,
      outcome: 'executed',
      result,
    })
  }

  #readTools(onAsked: () => void, signal: AbortSignal): Promise<readonly Tool[]> {
    const method = 'tools/list'
    const operation: Operation<readonly Tool[]> = {
      label: method,
      isSafe: true,
      run: ({ client }, request) => {
        onAsked()
        return allPages({ server: this.#server, method }, async (cursor) =>
          this.#toolPage(await client.request(listRequest(method, cursor), ResultSchema, request)),
        )
      },
    }
    // Those who wait have their own limits; when the last one has left, the signal aborts.
    return this.run(operation, { signal, timeoutMs: LONGEST_MS })
  }

  #toolPage(result: Readonly<Record<string, unknown>>): Page<Tool> {
    const page = toolPageFrom(result)
    if (page === undefined) {
      const message = `tools/list of MCP server "${this.#server}" was answered with no list of tools`
      throw new McpClientError('UNEXPECTED_RESPONSE', message, { server: this.#server })
    }
    for (const why of page.setAside ?? []) {
      this.#events.log('warning', `${this.#server}: a tool is set aside: ${why}`)
    }
    return { items: page.tools, nextCursor: page.nextCursor }
  }
}
