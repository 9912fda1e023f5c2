/** How a client reaches the gateway. */
export type Target =
  | { readonly url: string; readonly headers?: Readonly<Record<string, string>> }
  | { readonly command: string; readonly args: readonly string[] }

export interface CallHooks {
  readonly signal?: AbortSignal
  readonly onProgress?: (message: string) => void
}

/** What a user of a client can do with it, whichever it is. What it has no way for is not there. */
export interface ClientUnderTest extends AsyncDisposable {
  /** The names. */
  readonly listTools: () => Promise<readonly string[]>
  /** The whole answer as JSON. */
  readonly call: (tool: string, message: string, hooks?: CallHooks) => Promise<string>
  readonly listPrompts?: () => Promise<readonly string[]>
  /** What the user is to say, as JSON. */
  readonly getPrompt?: (name: string) => Promise<string>
  /** The URIs. */
  readonly listResources?: () => Promise<readonly string[]>
  /** The whole answer as JSON. */
  readonly readResource?: (uri: string) => Promise<string>
}

export interface ClientHooks {
  /** What a person answers in a form of one field. */
  readonly answer?: (question: string) => string
  readonly onToolsChanged?: () => void
}

/** What a client can do beside listing and calling. */
export type Ability =
  | 'prompts'
  | 'resources'
  | 'progress'
  | 'answers'
  | 'changes'
  /** Says that it cannot be asked, where nobody answers. */
  | 'silence'
  /** Opens a new session by itself when the gateway has forgotten the old one. */
  | 'heals'

/** A client as it is configured for one era. */
export interface ClientKind {
  readonly name: string
  /** Over HTTP. */
  readonly era: 'legacy' | 'modern'
  readonly can: readonly Ability[]
  readonly connect: (target: Target, hooks?: ClientHooks) => Promise<ClientUnderTest>
}

export const CLIENT_INFO = { name: 'interop', version: '1.0.0' } as const
