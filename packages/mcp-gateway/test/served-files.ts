import { AgentsAtHand, type Behaviour } from './agents-at-hand.ts'
import type { Block, CallAnswer } from './file-clients.ts'
import { bearerAuth } from '../src/http/auth/bearer.ts'
import type { GatewayOptions } from '../src/options.ts'
import { Runtime, type RuntimeEdges } from '../src/gateway/runtime.ts'
import type { OutputFile } from '../src/files/result-files.ts'
import type { AgentUpdate } from '../src/agents/agent.ts'

/** Tokens of two callers. */
export const TOKENS = { ada: 'ada-has-a-token-of-her-own', bob: 'bob-has-a-token-of-his-own' }

/** Returns bytes that begin like a PNG. */
export function image(bytes: number): Uint8Array {
  const png = new Uint8Array(bytes)
  png.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return png
}

/** Makes an agent that writes these files, in this order, and answers with a text. */
export function giving(...files: readonly OutputFile[]): Behaviour {
  return function* give(): Iterable<AgentUpdate> {
    for (const file of files) yield { type: 'file', file }
    yield { type: 'text', text: 'Here they are' }
    yield { type: 'done' }
  }
}

export function textFile(name: string, text: string): OutputFile {
  return { name, data: Buffer.from(text) }
}

/** An agent that answers with the text of its input files. */
export const reader: Behaviour = async function* read({ input }): AsyncIterable<AgentUpdate> {
  for (const file of input.files) {
    let text = ''
    for await (const chunk of file.read()) text += Buffer.from(chunk).toString()
    yield { type: 'text', text: `${file.name} (${file.mimeType}, ${file.size}): ${text}` }
  }
  yield { type: 'done' }
}

export interface ServedFiles extends AsyncDisposable {
  /** URL of the MCP endpoint. */
  readonly url: string
  /** URL of downloads and uploads. */
  readonly files: string
}

/** Starts a gateway. Closes its store with it. */
export async function serve(
  behaviours: Readonly<Record<string, Behaviour>>,
  options: GatewayOptions = {},
  edges: RuntimeEdges = {},
): Promise<ServedFiles> {
  const sources = [new AgentsAtHand(behaviours)]
  const gateway = new Runtime({ log: false, ...options, sources }, edges)
  const { url } = await gateway.listen({ port: 0 })
  return {
    url,
    files: url.replace('/mcp', '/artifacts'),
    async [Symbol.asyncDispose]() {
      await gateway.close()
      await options.store?.close()
    },
  }
}

/** Accepts callers with one of the tokens. */
export function twoPeople(): GatewayOptions['auth'] {
  const scopes = ['*']
  return bearerAuth({
    ada: { token: TOKENS.ada, scopes },
    bob: { token: TOKENS.bob, scopes },
  })
}

/** Returns the URI of a file in a result: inline or a link. */
export function uriOf(block: Block | undefined): string {
  const {
    uri,
    resource,
    _meta: meta,
  } = (block ?? {}) as unknown as {
    uri?: string
    resource?: { uri: string }
    _meta?: { uri?: string }
  }
  return uri ?? resource?.uri ?? meta?.uri ?? ''
}

/** Returns all text of a result. */
export function textOf({ content }: CallAnswer): string {
  return content.map((block) => (typeof block['text'] === 'string' ? block['text'] : '')).join('\n')
}

/** Returns the parts of an error that a client sees. */
export async function refusalOf(promise: Promise<unknown>): Promise<object> {
  const error: unknown = await promise.then(
    () => new Error('The promise was not rejected'),
    (reason: unknown) => reason,
  )
  const { code, data, message } = error as { code?: number; data?: object; message: string }
  return { code, data, message: message.replaceAll(/artifact:\S+/g, '<uri>') }
}
