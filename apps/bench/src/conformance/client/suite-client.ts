import type { StreamableHttpTransport } from '@x/mcp-transport'

/** The stock clients that are run, each unchanged. */
export const CLIENT_KINDS = ['v1', 'v2', 'v2-modern'] as const

/**
 * `v1`: the SDK's first version. `v2`: the second one as it comes, which sends `initialize`, also to a
 * server that has none. `v2-modern`: the second one that looks for 2026-07-28 by itself.
 */
export type ClientKind = (typeof CLIENT_KINDS)[number]

/** What the scenarios need of a client, in whichever version. */
export interface SuiteClient {
  connect(transport: StreamableHttpTransport): Promise<void>
  listTools(): Promise<{ readonly tools: readonly { readonly name: string }[] }>
  callTool(call: ToolCall): Promise<unknown>
  listResources(): Promise<{ readonly resources: readonly { readonly uri: string }[] }>
  readResource(resource: { readonly uri: string }): Promise<unknown>
  listPrompts(): Promise<{ readonly prompts: readonly { readonly name: string }[] }>
  getPrompt(prompt: { readonly name: string }): Promise<unknown>
  close(): Promise<void>
}

export interface ToolCall {
  readonly name: string
  readonly arguments: Record<string, unknown>
}

/** What servers may ask of the client, and what they are answered. Nothing that is not named here. */
export interface Answers {
  readonly elicitation?: {
    /** The client itself fills what was left empty (SEP-1034). */
    readonly applyDefaults: boolean
    /** What the user accepts with. */
    readonly content: Record<string, boolean>
  }
  /** What the model says. */
  readonly sampling?: string
  /** There are none, but the server may ask. */
  readonly roots?: readonly []
}

export const CLIENT_INFO = { name: 'conformance-client', version: '1.0.0' } as const

export function reportError(error: Error): void {
  console.error('onerror:', error)
}

/** Loads only the version that is asked for. */
export async function makeSuiteClient(kind: ClientKind, answers: Answers): Promise<SuiteClient> {
  switch (kind) {
    case 'v1': {
      const { makeClientV1 } = await import('./client-v1.ts')
      return makeClientV1(answers)
    }
    case 'v2': {
      const { makeClientV2 } = await import('./client-v2.ts')
      return makeClientV2(answers, 'legacy')
    }
    case 'v2-modern': {
      const { makeClientV2 } = await import('./client-v2.ts')
      return makeClientV2(answers, 'auto')
    }
  }
}
