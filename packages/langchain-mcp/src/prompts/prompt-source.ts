import type { ResourceOptions } from '../resources/resource-source.ts'

/** Bounds of one request, and whom it is for. */
export type PromptOptions = ResourceOptions

/** What `prompts/get` answers. Content is `unknown` because servers are free to send types that no one here has heard of. */
export interface PromptResult {
  readonly description?: string | undefined
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
}

/** The call we need of a client; `McpClient` and `McpTools.server()` have it. */
export interface McpPromptSource {
  getPrompt(
    name: string,
    args?: Readonly<Record<string, string>>,
    options?: PromptOptions,
  ): Promise<PromptResult>
}

/** What we need of the `Client` of the SDK, v1 or v2. */
export interface SdkPromptClient {
  connect(...args: never[]): Promise<void>
  getServerVersion(): { readonly name: string } | undefined
  getPrompt(
    params: { name: string; arguments?: Record<string, string> },
    options?: { readonly signal?: AbortSignal; readonly timeout?: number },
  ): Promise<PromptResult>
}
