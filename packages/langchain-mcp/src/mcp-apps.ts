import { isRecord } from '@x/internal'
import type { ToolDefinition } from './tool-source.ts'

/** `_meta.ui` of a tool (MCP Apps, SEP-1865), as the server wrote it. */
export interface ToolUi {
  /** The user interface for results of the tool. `ui://…`, for `readResource()`. */
  readonly resourceUri?: string
  /** Who may call the tool: `'model'`, `'app'` or both. @default both */
  readonly visibility?: unknown
  readonly [key: string]: unknown
}

/** Returns the part of a definition that is about apps. Servers of older drafts have only `_meta["ui/resourceUri"]`. */
export function uiOf({ _meta: meta }: ToolDefinition): ToolUi {
  if (!isRecord(meta)) return {}
  const { ui, 'ui/resourceUri': older } = meta
  const { resourceUri: newer, ...rest } = isRecord(ui) ? ui : {}
  // A host would open it, so it must not be a web page.
  const resourceUri = [newer, older].find(isUiUri)
  return resourceUri === undefined ? rest : { ...rest, resourceUri }
}

/** Returns true for a tool that only an app may call. A host must not offer it to a model. */
export function isAppOnly(definition: ToolDefinition): boolean {
  const { visibility } = uiOf(definition)
  return Array.isArray(visibility) && !visibility.includes('model')
}

/** Returns true for the URI of a user interface. */
export function isUiUri(uri: unknown): uri is string {
  return typeof uri === 'string' && /^ui:\/\//i.test(uri)
}
