import type { IncomingMessage, ServerResponse } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import type { McpHttpHandler } from '@modelcontextprotocol/server'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import type { Listener } from '../listener.ts'
import type { LoopbackServer } from '../loopback-server.ts'
import { listenOnLoopback } from '../loopback-server.ts'
import type { Mutable } from '../mutable.ts'
import type { ReceivedRequest } from '../received-request.ts'
import { countOfMethod, receivedRequestFrom } from '../received-request.ts'
import type { WaitForOptions } from '../recording.ts'
import { Recording } from '../recording.ts'
import { requestBody } from '../request-body.ts'
import { rpcMessageFrom } from '../rpc-message.ts'
import { acknowledgedFrom } from './acknowledgement.ts'
import { addAskingTools } from './asking-tools.ts'
import { addHeaderTools, addInvalidHeaderTool } from './header-tools.ts'
import { ModernState } from './modern-state.ts'
import { addPlainTools } from './plain-tools.ts'
import { registerOn } from './register.ts'
import { addResourcesAndPrompts } from './resources-and-prompts.ts'
import type { ToolRun } from './run-log.ts'

/** Options of {@link startModernServer}. */
export interface ModernServerOptions {
  /**
   * What becomes of `initialize` and its kin: refused, or served without sessions, which makes the
   * server a dual-era one.
   *
   * @default 'reject'
   */
  readonly legacy?: 'reject' | 'serve' | undefined
  /**
   * `auto`: JSON, unless a notification comes before the answer.
   *
   * @default 'auto'
   */
  readonly answerAs?: 'auto' | 'sse' | undefined
  /**
   * Offers `invalid_header`, a tool that clients must leave out. The SDK warns on the console each
   * time it lists it.
   *
   * @default false
   */
  readonly invalidHeaderTool?: boolean | undefined
  /** @default 'A stateless test server.' */
  readonly instructions?: string | undefined
}

/** A stateless MCP server (2026-07-28) of SDK v2, which tells what it saw. */
export interface ModernServer extends AsyncDisposable {
  /** Ends in `/mcp`. */
  readonly url: string
  /** Every HTTP request, in the order of arrival; also those of before a restart. */
  readonly received: readonly ReceivedRequest[]
  /** TCP connections accepted so far. */
  readonly connections: number
  /** Every run of a tool, with its rounds. */
  readonly runs: readonly ToolRun[]
  /** Open `subscriptions/listen` streams, acknowledged ones only. */
  readonly listeners: readonly Listener[]
  /** Calls of `slow` that wait for {@link release}. */
  readonly held: number
  /** Name in the annotation of `region.region`. Changing it makes known headers wrong: `-32020`. */
  regionHeader: string
  /** How often a tool really ran; rounds that only asked for input do not count. */
  executions(tool: string): number
  /** Requests of a JSON-RPC method (`tools/call`) or an HTTP method (`GET`). */
  count(method: string): number
  /** The first request that matches, past ones included, as soon as there is one. */
  waitFor(
    matches: (request: ReceivedRequest) => boolean,
    options?: WaitForOptions,
  ): Promise<ReceivedRequest>
  /** The first run that matches; asked again when its state changes. */
  waitForRun(matches: (run: ToolRun) => boolean, options?: WaitForOptions): Promise<ToolRun>
  /** The first listen stream that matches, closed ones included; asked again when one closes. */
  waitForListener(
    matches: (listener: Listener) => boolean,
    options?: WaitForOptions,
  ): Promise<Listener>
  /** Lets every waiting call of `slow` answer; returns how many there were. @default 'released' */
  release(text?: string): number
  /** Reports progress of the waiting calls of `slow` that asked for it. */
  progress(progress: number, total?: number): Promise<void>
  /** Adds a tool (`added_1`, …) and tells the listeners. */
  toolsChanged(): void
  /** Tells the listeners; `counter://value` is one higher before. */
  resourceUpdated(uri: string): void
  /** Tells the listeners. */
  promptsChanged(): void
  /** Tells the listeners. */
  resourcesChanged(): void
  /** Resets the connections of the listen streams, without a farewell. Returns how many streams. */
  dropListeners(): number
  /** A crash: sockets are reset, the port stays. Ends when it listens again. */
  restart(): Promise<void>
}

/** Starts a {@link ModernServer} on a free port of 127.0.0.1. */
export async function startModernServer(options: ModernServerOptions = {}): Promise<ModernServer> {
  const server = new ModernHttpServer(options)
  await server.start()
  return server
}

class ModernHttpServer implements ModernServer {
  readonly #state = new ModernState()
  readonly #requests = new Recording<ReceivedRequest>('requests to the modern server')
  readonly #listeners = new Recording<Mutable<Listener>>('listen streams')
  readonly #responses = new Map<Listener, ServerResponse>()
  readonly #mcp: McpHttpHandler
  #http: LoopbackServer | undefined

  constructor(options: ModernServerOptions) {
    const {
      legacy = 'reject',
      answerAs = 'auto',
      invalidHeaderTool = false,
      instructions = 'A stateless test server.',
    } = options
    this.#mcp = createMcpHandler(
      () => {
        const server = new McpServer(
          { name: 'modern-test-server', version: '1.0.0' },
          {
            instructions,
            capabilities: {
              tools: { listChanged: true },
              prompts: { listChanged: true },
              resources: { listChanged: true, subscribe: true },
              logging: {},
            },
          },
        )
        const register = registerOn(server, this.#state)
        addPlainTools(register, this.#state)
        addAskingTools(register)
        addHeaderTools(register, this.#state)
        if (invalidHeaderTool) addInvalidHeaderTool(register)
        addResourcesAndPrompts(server, this.#state)
        return server
      },
      { legacy: legacy === 'serve' ? 'stateless' : 'reject', responseMode: answerAs },
    )
  }

  async start(): Promise<void> {
    const answer = toNodeHandler(this.#mcp)
    this.#http = await listenOnLoopback((request, response) => {
      this.#handle(request, response, answer).catch((error: unknown) => {
        response.destroy()
        throw error // not the client's doing: the test shall fail
      })
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/mcp`
  }

  get received(): readonly ReceivedRequest[] {
    return this.#requests.entries
  }

  get connections(): number {
    return this.#server.connections
  }

  get runs(): readonly ToolRun[] {
    return this.#state.runs.runs
  }

  get listeners(): readonly Listener[] {
    return [...this.#responses.keys()]
  }

  get held(): number {
    return this.#state.held
  }

  get regionHeader(): string {
    return this.#state.regionHeader
  }

  set regionHeader(name: string) {
    this.#state.regionHeader = name
  }

  executions(tool: string): number {
    return this.#state.runs.executions(tool)
  }

  count(method: string): number {
    return countOfMethod(this.received, method)
  }

  waitFor(
    matches: (request: ReceivedRequest) => boolean,
    options?: WaitForOptions,
  ): Promise<ReceivedRequest> {
    return this.#requests.waitFor(matches, options)
  }

  waitForRun(matches: (run: ToolRun) => boolean, options?: WaitForOptions): Promise<ToolRun> {
    return this.#state.runs.waitFor(matches, options)
  }

  waitForListener(
    matches: (listener: Listener) => boolean,
    options?: WaitForOptions,
  ): Promise<Listener> {
    return this.#listeners.waitFor(matches, options)
  }

  release(text = 'released'): number {
    return this.#state.release(text)
  }

  progress(progress: number, total?: number): Promise<void> {
    return this.#state.progress(progress, total)
  }

  toolsChanged(): void {
    this.#state.addedTools++
    this.#mcp.notify.toolsChanged()
  }

  resourceUpdated(uri: string): void {
    if (uri === 'counter://value') this.#state.counter++
    this.#mcp.notify.resourceUpdated(uri)
  }

  promptsChanged(): void {
    this.#mcp.notify.promptsChanged()
  }

  resourcesChanged(): void {
    this.#mcp.notify.resourcesChanged()
  }

  dropListeners(): number {
    const responses = [...this.#responses.values()]
    for (const response of responses) response.socket?.resetAndDestroy()
    return responses.length
  }

  restart(): Promise<void> {
    return this.#server.restart()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.close()
    await this.#mcp.close()
    this.#requests.close()
    this.#listeners.close()
    this.#state.runs.close()
  }

  get #server(): LoopbackServer {
    if (this.#http === undefined) throw new TypeError('Not started')
    return this.#http
  }

  async #handle(
    request: IncomingMessage,
    response: ServerResponse,
    answer: ReturnType<typeof toNodeHandler>,
  ): Promise<void> {
    const body = await requestBody(request).catch(() => undefined)
    if (body === undefined) return // the client left in the middle of its request
    const message = request.method === 'POST' ? rpcMessageFrom(body.toString()) : undefined
    const received = receivedRequestFrom(request, message, this.#server.connectionOf(request))
    this.#requests.add(received)
    if (new URL(request.url ?? '/', this.url).pathname !== '/mcp') {
      response.writeHead(404).end('This server answers /mcp')
      return
    }
    const { method = 'GET', url = '/', headers } = request
    // The body as it came, so that the SDK itself finds out what is wrong with it.
    const replayed = { method, url, headers, [Symbol.asyncIterator]: () => once(body) }
    await answer(replayed, this.#watched(response, received))
  }

  /** The response, with an eye on when a listen stream is acknowledged and when it is gone. */
  #watched(response: ServerResponse, received: ReceivedRequest): WatchedResponse {
    const isListen = received.rpcMethod === 'subscriptions/listen'
    let opened = !isListen
    return {
      get destroyed() {
        return response.destroyed
      },
      writeHead: (status, headers) => response.writeHead(status, headers),
      write: (chunk) => {
        const written = response.write(chunk)
        if (!opened) this.#opened(response, received, Buffer.from(chunk).toString())
        opened = true
        return written
      },
      end: (chunk) => response.end(chunk),
      on: (event, listener) => response.on(event, listener),
    }
  }

  #opened(response: ServerResponse, received: ReceivedRequest, frames: string): void {
    const acknowledged = acknowledgedFrom(frames)
    if (acknowledged === undefined) return
    const listener: Mutable<Listener> = {
      id: received.rpcId,
      requested: received.params?.['notifications'],
      acknowledged,
      connection: received.connection,
      isOpen: true,
    }
    this.#responses.set(listener, response)
    response.once('close', () => {
      this.#responses.delete(listener)
      listener.isOpen = false
      this.#listeners.changed(listener)
    })
    this.#listeners.add(listener)
  }
}

/** The part of a response that the SDK's adapter uses. */
interface WatchedResponse {
  readonly destroyed: boolean
  writeHead(status: number, headers?: Record<string, string>): unknown
  write(chunk: string | Uint8Array): boolean
  end(chunk?: string | Uint8Array): unknown
  on(event: string, listener: (...args: unknown[]) => void): unknown
}

async function* once<Value>(value: Value): AsyncGenerator<Value> {
  yield value
}
