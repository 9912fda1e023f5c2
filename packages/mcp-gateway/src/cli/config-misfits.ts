import type { ConfigPath } from './config-path.ts'
import type { GatewayConfig, SourceConfig } from './gateway-config.ts'
import { sharedPaths } from './shared-paths.ts'

/** Values that are right each by itself, and not together. */
export interface ConfigMisfit {
  readonly path: ConfigPath
  /** The end of the sentence "… expected …". */
  readonly expected: string
}

/** What would be done without a word, and not as it was meant. */
export function configMisfits(config: GatewayConfig): readonly ConfigMisfit[] {
  return [
    ...sharedPaths(config).map(({ path, other }) => {
      return { path, expected: `a path of its own: ${other} has this one` }
    }),
    ...unusedCredentials(config),
    ...unusedPlaces(config),
    ...lookedAtTooSeldom(config),
  ]
}

/** Whoever lists who may call does not mean everybody. */
function* unusedCredentials({ auth }: GatewayConfig): Generator<ConfigMisfit> {
  const { mode, issuers, tokens } = auth
  const path = ['auth', 'mode']
  if (issuers.length > 0 && mode !== 'jwt') {
    yield { path, expected: 'jwt, which is the mode for auth.issuers' }
  } else if (Object.keys(tokens).length > 0 && mode === 'none') {
    yield { path, expected: 'bearer, jwt or facade, which are the modes for auth.tokens' }
  }
}

/** What is to be kept would be gone with the process. */
function* unusedPlaces({ store }: GatewayConfig): Generator<ConfigMisfit> {
  const path = ['store', 'type']
  if (store.dir !== null && store.type !== 'disk') {
    yield { path, expected: 'disk, which is the type for store.dir' }
  }
  if (store.url !== null && store.type !== 'redis') {
    yield { path, expected: 'redis, which is the type for store.url' }
  }
}

const REFRESH_MS = 20_000

/** Agents would leave and come back between two looks. */
function* lookedAtTooSeldom({ agents }: GatewayConfig): Generator<ConfigMisfit> {
  const seldom = Math.max(0, ...agents.sources.map(refreshMsOf))
  // A look may come some tenth later, and take a moment.
  if (agents.ttlMs > 1.2 * seldom) return
  const expected = `more than ${1.2 * seldom}: a source looks for its agents every ${seldom} ms (refreshMs)`
  yield { path: ['agents', 'ttlMs'], expected }
}

function refreshMsOf(source: SourceConfig): number {
  return source.type === 'langgraph' ? 0 : (source.refreshMs ?? REFRESH_MS)
}
