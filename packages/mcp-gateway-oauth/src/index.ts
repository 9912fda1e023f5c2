// Everything exported here is public API.
import './runtime-check.ts' // stays the first import
export { fileSection } from './file-section.ts'
export { oauthFacade } from './oauth-facade.ts'
export type { OAuthFacadeOptions } from './oauth-facade.ts'
export { IdentityServiceError } from './identity-service.ts'
export type { Identity, IdentityService } from './identity-service.ts'
export { solaceIdentity } from './solace-identity.ts'
export type { SolaceIdentityOptions } from './solace-identity.ts'
