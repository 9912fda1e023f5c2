import type * as Core from '@a2a-js/sdk'
import type * as Client from '@a2a-js/sdk/client'

import { GatewayError } from '../../errors.ts'

/** What is used of `@a2a-js/sdk`. */
export interface A2aSdk {
  readonly core: typeof Core
  readonly client: typeof Client
}

/**
 * Loads `@a2a-js/sdk` on first use: a gateway without agents of that kind does not need it.
 *
 * @throws GatewayError `CONFIG` where it is not installed
 */
export async function loadA2aSdk(load: () => Promise<A2aSdk> = importBoth): Promise<A2aSdk> {
  try {
    return await load()
  } catch (cause) {
    throw new GatewayError(
      'CONFIG',
      'Agents of A2A need a package that cannot be loaded: npm install @a2a-js/sdk@1',
      { cause },
    )
  }
}

async function importBoth(): Promise<A2aSdk> {
  const [core, client] = await Promise.all([import('@a2a-js/sdk'), import('@a2a-js/sdk/client')])
  return { core, client }
}
