// Everything exported here is public API. How agents become tools, and calls runs, is deliberately private.
import './runtime-check.ts' // stays the first import
export { createGateway } from './gateway.ts'
export type { Gateway } from './gateway.ts'
export type { GatewayListener } from './http/server.ts'
export type {
  ClientAddress,
  ArtifactSettings,
  GatewayObjects,
  GatewayOptions,
  GatewaySettings,
  Given,
  HttpSettings,
  InlineSettings,
  ListenOptions,
  RunSettings,
  ServerSettings,
  SessionSettings,
  StreamingSettings,
  ToolOverride,
  ToolSettings,
} from './options.ts'
export type { StdioConnection, StdioOptions } from './mcp/stdio.ts'
export type { Clock } from './internal/clock.ts'
export { callSpans } from './gateway/call-spans.ts'
export type { GatewayLogger, LogDetails } from './internal/logger.ts'
export type {
  CallEnd,
  FileTransfer,
  GatewayObserver,
  ObservedCall,
  RefusedRequest,
  SessionEnd,
  TraceCarrier,
} from './internal/observer.ts'

export { AgentRegistry } from './tools/agent-registry.ts'
export type {
  AgentRegistryOptions,
  AgentStatus,
  PlanChange,
  RegistryStatus,
  SourceStatus,
} from './tools/agent-registry.ts'

export type { PlannedPrompt } from './tools/prompts.ts'
export type { NameCollision } from './tools/names.ts'
export type {
  ArgumentCheck,
  CheckedArguments,
  DroppedTool,
  PlannedTool,
  PlanOptions,
  ResumeArgument,
  ToolDefinition,
  ToolPlan,
} from './tools/plan.ts'

export { langGraphServerSource } from './agents/langgraph-server.ts'
export type { CredentialHeaders, LangGraphServerSourceOptions } from './agents/langgraph-server.ts'
export { langGraphSource } from './agents/langgraph/source.ts'
export type { LangGraphSourceOptions } from './agents/langgraph/source.ts'
export type { ContextCaller, ContextOptions } from './agents/langgraph/context.ts'
export type {
  GraphDefinition,
  GraphOutput,
  GraphState,
  RunnableGraph,
} from './agents/langgraph/definition.ts'

export type {
  AgentArtifacts,
  ArtifactWriter,
  InputFile,
  OutputFile,
  StoredFile,
} from './files/result-files.ts'
export { isFinal, skillsOf } from './agents/agent.ts'
export type {
  Agent,
  AgentCall,
  AgentHealth,
  AgentInput,
  AgentListener,
  AgentSource,
  AgentUpdate,
  Answer,
  AnswerUi,
  ToolUi,
  CheckedInput,
  FinalUpdate,
  JsonSchema,
  Question,
  RemoteRun,
  Resume,
  Skill,
  SkillAnnotations,
} from './agents/agent.ts'

export { isAllowed } from './internal/principal.ts'
export type { Principal } from './internal/principal.ts'
export type {
  AuthenticationRequest,
  Authenticator,
  RequestSource,
} from './http/auth/authenticator.ts'
export { bearerAuth } from './http/auth/bearer.ts'
export type { BearerAuthOptions, StaticToken } from './http/auth/bearer.ts'
export { jwtAuth } from './http/auth/jwt.ts'
export type { JwtAuthOptions, JwtIssuerOptions } from './http/auth/jwt.ts'
export { anyAuth } from './http/auth/combine.ts'
export { tokenExchange } from './http/auth/token-exchange.ts'
export type {
  ExchangeClient,
  ExchangeTarget,
  TokenExchangeOptions,
} from './http/auth/token-exchange.ts'
export type { ExchangeProfile, ExchangeProfileName } from './http/auth/exchange-profiles.ts'
export type {
  CredentialsProvider,
  CredentialTarget,
  UserCredentials,
  UserToken,
} from './internal/user-credentials.ts'
export { createGuardedFetch } from './internal/guarded-fetch.ts'
export type {
  GuardedFetch,
  GuardedFetchOptions,
  ResolvedAddress,
} from './internal/guarded-fetch.ts'

export type { ExecuteRun, RunAttempt, RunEngine } from './runs/engine.ts'
export { DiskGatewayStore } from './store/sqlite-store.ts'
export type { DiskGatewayStoreOptions } from './store/sqlite-store.ts'
export { MemoryGatewayStore } from './store/memory-store.ts'
export type { MemoryGatewayStoreOptions } from './store/memory-store.ts'
export type {
  AppendOptions,
  BlobLimits,
  Blobs,
  EventLogs,
  FoundLog,
  GatewayStore,
  ListedRecord,
  ListOptions,
  LoggedEvent,
  LogHeader,
  LogLimits,
  LogListener,
  PutEvent,
  PutOptions,
  Rates,
  Records,
  Versioned,
  WrittenBlob,
} from './store/gateway-store.ts'

export { GatewayError } from './errors.ts'
export type { GatewayErrorCode, GatewayErrorOptions } from './errors.ts'
