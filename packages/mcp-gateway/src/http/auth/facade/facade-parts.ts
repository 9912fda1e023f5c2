import type { GatewayStore } from '../../../store/gateway-store.ts'
import type { Clients } from './clients.ts'
import type { Grants } from './grants.ts'
import type { IdentityService } from './identity-service.ts'

/** What the endpoints of a facade share. */
export interface FacadeParts {
  /** Its own name, as clients compare it (RFC 9207). */
  readonly issuer: string
  /** The MCP endpoint, for which all tokens are. */
  readonly resource: string
  readonly callback: string
  readonly identity: IdentityService
  readonly clients: Clients
  readonly grants: Grants
  readonly store: Pick<GatewayStore, 'rates'>
  readonly principalClaim: string
  /** What somebody with these claims may do. */
  readonly scopesOf: (claims: Readonly<Record<string, unknown>>) => readonly string[]
  /** Told what went wrong; clients are not. */
  readonly onError: (error: unknown) => void
}
