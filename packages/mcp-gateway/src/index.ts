// Everything exported here is public API. How agents become tools, and calls runs, is deliberately private.
import './runtime-check.ts' // stays the first import
export { createGateway } from './gateway.ts'
export type { Gateway } from './gateway.ts'
export type { GatewayListener, ListenOptions } from './gateway-listener.ts'
export type {
  EraOptions,
  GatewayOptions,
  GatewayToolOptions,
  HttpOptions,
  LimitOptions,
  RegistryOptions,
  RunOptions,
  SecretOptions,
  ServerOptions,
  StreamingOptions,
} from './gateway-options.ts'
export type { LiveOptions } from './live-options.ts'
export type { ClientAddress } from './http/client-address.ts'
export type { RateLimits } from './http/request-rates.ts'
export type { ArtifactOptions, QuotaOptions, UploadOptions } from './artifacts/artifact-options.ts'
export type { ClientProfile, InlineOptions } from './files/inline-limits.ts'
export type { EventStoreLimits, SessionLimits } from './protocol/sessions/session-limits.ts'
export type { StdioConnection, StdioOptions } from './protocol/stdio.ts'
export type { Clock } from './clock.ts'
export { callSpans } from './operation/call-spans.ts'
export type { HealthOptions } from './operation/health-routes.ts'
export type { GatewayLogger, LogDetails } from './operation/logger.ts'
export type {
  CallEnd,
  FileTransfer,
  GatewayObserver,
  ObservedCall,
  RefusedRequest,
  SessionEnd,
  TraceCarrier,
} from './operation/observer.ts'

export { skillsOf } from './agents/agent.ts'
export type { Agent, AgentHealth, JsonSchema, Skill, SkillAnnotations } from './agents/agent.ts'
export type { AgentListener, AgentSource } from './agents/agent-source.ts'
export { AgentRegistry } from './agents/agent-registry.ts'
export type { BreakerOptions } from './agents/breaker.ts'
export type {
  AgentRegistryOptions,
  AgentStatus,
  PlanChange,
  RegistryStatus,
  SourceReplacement,
  WaitFor,
} from './agents/agent-registry-options.ts'
export type { SourceStatus } from './agents/registry-sources.ts'

export type {
  ArgumentCheck,
  CheckedArguments,
  CheckedInput,
  ResumeArgument,
} from './tools/argument-check.ts'
export type { CachePolicy } from './tools/cache-policy.ts'
export type { MetaTool, MetaToolName } from './tools/meta-tools.ts'
export type { PlannedPrompt } from './tools/skill-prompts.ts'
export type {
  ExtraParameters,
  NameOptions,
  ToolOptions,
  ToolOverride,
} from './tools/tool-options.ts'
export type { DroppedTool, NameCollision, PlannedTool, ToolPlan } from './tools/tool-plan.ts'
export type { ListedTool, ToolDefinition } from './tools/tool-definition.ts'

export { a2aSource } from './sources/a2a/a2a-source.ts'
export type { A2aCard, A2aSourceOptions } from './sources/a2a/a2a-source.ts'
export type { CredentialHeaders } from './sources/credential-headers.ts'
export { langGraphServerSource } from './sources/langgraph-server/lang-graph-server-source.ts'
export type { LangGraphServerSourceOptions } from './sources/langgraph-server/lang-graph-server-source.ts'
export { langGraphSource } from './sources/langgraph/lang-graph-source.ts'
export type { LangGraphSourceOptions } from './sources/langgraph/lang-graph-source.ts'
export type {
  GraphDefinition,
  GraphOutput,
  GraphState,
  RunnableGraph,
} from './sources/langgraph/graph-definition.ts'

export type {
  AgentCall,
  AgentInput,
  Answer,
  ArtifactWriter,
  InputFile,
  OutputFile,
  Resume,
} from './runs/agent-call.ts'
export { isFinal } from './runs/agent-update.ts'
export type { AgentUpdate, FinalUpdate, Question } from './runs/agent-update.ts'

export { isAllowed } from './auth/principal.ts'
export type { Principal } from './auth/principal.ts'
export type { AuthenticationRequest, Authenticator, RequestSource } from './auth/authenticator.ts'
export { anyAuth } from './auth/any-auth.ts'
export { bearerAuth } from './auth/bearer-auth.ts'
export type { BearerAuthOptions } from './auth/bearer-auth.ts'
export type { StaticToken } from './auth/static-tokens.ts'
export { jwtAuth } from './auth/jwt-auth.ts'
export type { JwtAuthOptions } from './auth/jwt-auth.ts'
export type { JwtIssuerOptions } from './auth/jwt-issuer.ts'
export { devModeAuth } from './auth/dev-mode.ts'
export type { DevModeOptions } from './auth/dev-mode.ts'
export { facadeAuth } from './auth/facade/facade-auth.ts'
export type { FacadeAuthOptions } from './auth/facade/facade-auth.ts'
export { IdentityServiceError } from './auth/facade/identity-service.ts'
export type { Identity, IdentityService } from './auth/facade/identity-service.ts'
export { createGuardedFetch } from './http/guarded-fetch.ts'
export type { GuardedFetch, GuardedFetchOptions } from './http/guarded-fetch.ts'
export type { ResolvedAddress } from './http/pinned-request.ts'

export { DiskGatewayStore } from './store/disk-gateway-store.ts'
export type { DiskGatewayStoreOptions } from './store/disk-gateway-store.ts'
export { MemoryGatewayStore } from './store/memory-gateway-store.ts'
export type { MemoryGatewayStoreOptions } from './store/memory-gateway-store.ts'
export type {
  AppendOptions,
  Blobs,
  ByteRange,
  EventLogs,
  FoundLog,
  GatewayStore,
  ListedValue,
  ListOptions,
  LoggedEvent,
  LogHeader,
  LogLimits,
  LogListener,
  Logs,
  Messages,
  PutOptions,
  Rate,
  Rates,
  StreamEvent,
  Values,
  Versioned,
  WrittenBlob,
} from './store/gateway-store.ts'

export { GatewayError } from './gateway-error.ts'
export type { GatewayErrorCode, GatewayErrorOptions } from './gateway-error.ts'
