import type { UserCode } from '../src/auth/auth-provider.ts'
import type { FetchFunction } from '../src/auth/authorizer.ts'
import type { Clock } from '../src/auth/device-flow.ts'
import { deviceOAuth } from '../src/auth/device-oauth.ts'
import type { DeviceOAuthOptions } from '../src/auth/device-oauth.ts'
import { createOAuthFlow } from '../src/auth/oauth-flow.ts'
import { renewal } from './oauth-user.ts'

/** Time passes only while a flow waits. */
export class TestClock implements Clock {
  time = 0
  readonly waits: number[] = []
  now(): number {
    return this.time
  }
  async sleep(ms: number): Promise<void> {
    this.waits.push(ms)
    this.time += ms
  }
}

export interface SignInOptions extends Partial<DeviceOAuthOptions> {
  readonly clock?: Clock
  readonly signal?: AbortSignal
}

/** Signs in with a provider of its own, as a process does. Returns the codes that were shown. */
export async function signInByCode(
  { url, fetch }: { readonly url: string; readonly fetch: FetchFunction },
  {
    clock = new TestClock(),
    signal = new AbortController().signal,
    ...options
  }: SignInOptions = {},
): Promise<UserCode[]> {
  const shown: UserCode[] = []
  const provider = deviceOAuth({ onCode: (code) => void shown.push(code), ...options })
  const serverUrl = new URL(url)
  const tokenNow = async (): Promise<string | undefined> => (await provider.tokens())?.access_token
  const refused = await tokenNow()
  const flow = await createOAuthFlow({ provider, serverUrl, fetch, signal, clock })
  await flow.obtain(renewal(), async () => (await tokenNow()) !== refused)
  return shown
}
