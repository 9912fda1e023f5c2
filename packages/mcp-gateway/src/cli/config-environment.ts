import type { Environment } from './expand-variables.ts'
import type { ConfigSetting } from './config-setting.ts'
import { settablePaths } from './config-shape.ts'
import type { ConfigPath } from './config-path.ts'

const PREFIX = 'MCP_GATEWAY'

/**
 * What the environment says: `MCP_GATEWAY_HTTP_PORT` is `http.port`. Names that are no key are left alone:
 * Kubernetes puts `MCP_GATEWAY_PORT` and the like beside every process that shares a namespace with a service so
 * named.
 */
export function environmentSettings(env: Environment): readonly ConfigSetting[] {
  return settablePaths().flatMap((path) => {
    const from = variableOf(path)
    const text = env[from]
    return text === undefined || text === '' ? [] : [{ path, text, from }]
  })
}

/** The variable for a place. */
function variableOf(path: ConfigPath): string {
  return [PREFIX, ...path.map((part) => String(part).replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2'))]
    .join('_')
    .toUpperCase()
}
