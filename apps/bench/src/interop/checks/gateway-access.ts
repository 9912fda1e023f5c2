import type { Check } from '../check.ts'
import { bringsToken } from '../gateway/credentials.ts'
import { meetsForgottenSession } from '../gateway/forgotten-session.ts'
import { KINDS } from '../gateway/kinds.ts'
import { signsIn } from '../gateway/sign-in.ts'
import { SDK_VERSIONS } from '../sdk-clients.ts'

/** Being let in, and being forgotten. */
export const gatewayAccess: readonly Check[] = [
  ...KINDS.map((kind) => ({
    group: 'A token for the gateway, or none',
    name: kind.name,
    run: () => bringsToken(kind),
  })),
  ...SDK_VERSIONS.map((version) => ({
    group: 'Signing in at the gateway, with nothing but its URL',
    name: `SDK ${version}`,
    run: () => signsIn(version),
  })),
  ...KINDS.map((kind) => ({
    group: 'A gateway that has forgotten its sessions',
    name: kind.name,
    run: () => meetsForgottenSession(kind),
  })),
]
