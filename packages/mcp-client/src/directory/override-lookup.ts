import { FieldError } from './server-fields.ts'
import { overrideFrom } from './server-override.ts'
import type { ServerOverride } from './server-override.ts'

export interface OverrideQuestion {
  /** The slug or name that is asked for. */
  readonly identifier: string
  readonly folderPath: string | undefined
  readonly log: (level: 'info' | 'warning', message: string) => void
}

/**
 * The override for a server: the one for its folder, else the one for any. Entries that cannot be used
 * are passed over, with a warning; that there is none is said, too, with the keys that were tried.
 */
export function overrideOf(
  overrides: Readonly<Record<string, unknown>>,
  { identifier, folderPath, log }: OverrideQuestion,
): ServerOverride | undefined {
  const anyFolder = `mcpServer.${identifier}`
  const keys = folderPath === undefined ? [anyFolder] : [`${anyFolder}.${folderPath}`, anyFolder]
  for (const key of keys) {
    if (!Object.hasOwn(overrides, key)) continue
    try {
      return overrideFrom(overrides[key])
    } catch (error) {
      if (!(error instanceof FieldError)) throw error
      log('warning', `The override "${key}" is passed over: ${error.message}`)
    }
  }
  log('info', `No override for MCP server "${identifier}"; tried: ${keys.join(', ')}`)
  return undefined
}
