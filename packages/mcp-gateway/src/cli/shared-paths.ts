import { pathText, type ConfigPath } from './config-path.ts'
import type { GatewayConfig } from './gateway-config.ts'

/** A path of a URL that something else has already: one of the two would never be reached. */
export interface SharedPath {
  readonly path: ConfigPath
  /** Who has it, for people. */
  readonly other: string
}

export function sharedPaths({
  http,
  artifacts,
}: Pick<GatewayConfig, 'http' | 'artifacts'>): readonly SharedPath[] {
  const { health, metricsPath } = http
  const given: readonly (readonly [ConfigPath, string | null])[] = [
    [['http', 'path'], http.path],
    [['http', 'health', 'path'], health.path],
    [['http', 'health', 'readyPath'], health.readyPath],
    [['http', 'metricsPath'], metricsPath],
  ]
  return given.flatMap(([path, url], index) => {
    if (url === null) return []
    // Files lie below theirs, under names of their own.
    if (artifacts.enabled && url.startsWith(`${artifacts.path}/`)) {
      return [{ path, other: 'artifacts.path' }]
    }
    const earlier = given.slice(0, index).find(([, each]) => each === url)
    return earlier === undefined ? [] : [{ path, other: pathText(earlier[0]) }]
  })
}
