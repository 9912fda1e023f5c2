import type { RunnableConfig } from '@langchain/core/runnables'
import { check, type Checks } from '@x/internal'

/** Limits of one request, and the user that it is for. */
export interface RequestOptions {
  readonly signal?: AbortSignal | undefined
  /** Limit of one request in milliseconds. @default the client's own */
  readonly timeoutMs?: number | undefined
  /** Config that selects the session, for clients that serve several users. */
  readonly config?: RunnableConfig | undefined
}

export const requestChecks: Checks<RequestOptions> = {
  signal: { ...check.methods('addEventListener'), takes: 'an AbortSignal' },
  timeoutMs: check.number(),
  config: check.record,
}

/** A resource as a server lists it. */
export interface ListedResource {
  readonly uri: string
  readonly name?: string | undefined
  readonly title?: string | undefined
  readonly description?: string | undefined
  readonly mimeType?: string | undefined
}

/** Result of `resources/read`: text or base64, for one or several URIs. */
export interface ReadResource {
  readonly contents: readonly Readonly<Record<string, unknown>>[]
}

/** The two client methods that loading resources needs. `McpClient` and `McpTools.server()` have them. */
export interface McpResourceSource {
  /** Returns every resource of the server, from all pages. */
  listResources(options?: RequestOptions): Promise<readonly ListedResource[]>
  readResource(uri: string, options?: RequestOptions): Promise<ReadResource>
}

/** Result of `prompts/get`. Content is `unknown` because servers may send types that are not known here. */
export interface PromptResult {
  readonly description?: string | undefined
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
}

/** The client method that loading a prompt needs. `McpClient` and `McpTools.server()` have it. */
export interface McpPromptSource {
  getPrompt(
    name: string,
    args?: Readonly<Record<string, string>>,
    options?: RequestOptions,
  ): Promise<PromptResult>
}
