//! What every operation answers and takes besides its own: added to the description in one place.
//!
//! Problems have their own media type; who may not ask, a body that is too long, a key that belongs to
//! another request, an object that somebody changed meanwhile. A test of the binary holds this against what
//! is served.

use utoipa::Modify;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Content, Header, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder};

use crate::{ErrorKind, PROBLEM_MEDIA_TYPE};

/// Operations that change or delete one object and heed `If-Match`.
const CONDITIONAL: [&str; 20] = [
    "pool_delete",
    "volume_resize",
    "volume_set",
    "volume_delete",
    "snapshot_delete",
    "snapshot_hold",
    "snapshot_release",
    "database_delete",
    "database_commands",
    "database_settings_change",
    "database_expire",
    "schedule_change",
    "schedule_delete",
    "objective_set",
    "objective_delete",
    "host_change",
    "host_delete",
    "export_delete",
    "user_change",
    "user_delete",
];

/// Operations whose answer is an object with its `ETag`.
const TAGGED: [&str; 28] = [
    "pool_create",
    "pool_show",
    "volume_create",
    "volume_show",
    "volume_resize",
    "volume_set",
    "snapshot_create",
    "snapshot_show",
    "snapshot_hold",
    "snapshot_release",
    "database_show",
    "database_commands",
    "database_settings",
    "database_settings_change",
    "database_expire",
    "schedule_create",
    "schedule_show",
    "schedule_change",
    "objective_set",
    "objective_show",
    "host_create",
    "host_show",
    "host_change",
    "export_create",
    "export_show",
    "user_create",
    "user_show",
    "user_change",
];

/// Operations that take long: they can be had as jobs.
const LONG: [&str; 7] = [
    "pool_check",
    "pool_scrub",
    "drive_replace",
    "drive_online",
    "database_verify",
    "database_import",
    "database_follow",
];

/// Operations that make what has no address of its own.
const WITHOUT_ADDRESS: [&str; 3] = ["console_ticket_create", "console_session_create", "session_create"];

/// Operations whose answer is a secret, which is told once: no key repeats it.
const TELLS_SECRET: [&str; 4] =
    ["console_ticket_create", "console_session_create", "session_create", "token_create"];

/// Whether an operation heeds `If-Match`.
pub(crate) fn is_conditional(operation: &str) -> bool {
    CONDITIONAL.contains(&operation)
}

/// Whether an operation answers with a secret.
pub(crate) fn tells_secret(operation: &str) -> bool {
    TELLS_SECRET.contains(&operation)
}

/// Completes the description of every operation.
pub(crate) struct Answers;

impl Modify for Answers {
    fn modify(&self, openapi: &mut OpenApi) {
        let components = openapi.components.get_or_insert_default();
        for kind in ErrorKind::ALL {
            components.responses.insert(name_of(kind), RefOr::T(problem(kind.meaning())));
        }
        let other =
            "Any other problem: a method that the path does not take (405), a fault of this machine (500)";
        components.responses.insert("other".to_string(), RefOr::T(problem(other)));
        for item in openapi.paths.paths.values_mut() {
            for (method, operation) in operations(item) {
                complete(method, operation);
            }
        }
    }
}

/// The operations of a path, with their methods.
pub(crate) fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let all = [
        ("get", &mut item.get),
        ("put", &mut item.put),
        ("post", &mut item.post),
        ("patch", &mut item.patch),
        ("delete", &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn complete(method: &str, operation: &mut Operation) {
    let id = operation.operation_id.clone().unwrap_or_default();
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            name_problem(response);
        }
    }
    let parameters = operation.parameters.get_or_insert_default();
    let has_query = parameters.iter().any(is_in_query);
    let is_paged = parameters.iter().any(|one| matches!(one, RefOr::T(one) if one.name == "limit"));
    let takes_key = method == "post" && !tells_secret(&id);
    if takes_key {
        parameters.push(RefOr::T(idempotency_key()));
    }
    if is_conditional(&id) {
        parameters.push(RefOr::T(if_match()));
    }
    let is_long = LONG.contains(&id.as_str());
    if is_long {
        parameters.extend([RefOr::T(wait()), RefOr::T(prefer())]);
    }
    if operation.parameters.as_ref().is_some_and(Vec::is_empty) {
        operation.parameters = None;
    }
    let mut kinds = vec![ErrorKind::Unauthorized, ErrorKind::Forbidden, ErrorKind::Closed];
    if has_query || takes_key {
        kinds.push(ErrorKind::Invalid);
    }
    if operation.request_body.is_some() {
        kinds.extend([ErrorKind::Invalid, ErrorKind::TooLarge, ErrorKind::MediaType]);
    }
    if takes_key {
        kinds.extend([ErrorKind::Busy, ErrorKind::KeyReused, ErrorKind::TooLarge]);
    }
    if is_conditional(&id) {
        kinds.extend([ErrorKind::Invalid, ErrorKind::Changed]);
    }
    let responses = &mut operation.responses.responses;
    if is_long {
        responses.insert("202".to_string(), RefOr::T(under_way()));
    }
    for kind in kinds {
        let status = kind.http_status().to_string();
        responses.entry(status).or_insert_with(|| RefOr::Ref(Ref::from_response_name(name_of(kind))));
    }
    responses.entry("default".to_string()).or_insert_with(|| RefOr::Ref(Ref::from_response_name("other")));
    for (status, response) in responses.iter_mut() {
        let RefOr::T(response) = response else { continue };
        let is_good = status.starts_with('2');
        if is_good && TAGGED.contains(&id.as_str()) {
            add(response, "ETag", "names the state of what people set of the object, for `If-Match`");
        }
        if status == "201" && !WITHOUT_ADDRESS.contains(&id.as_str()) {
            add(response, "Location", "where the new object is, of several the first");
        }
        if is_good && is_paged {
            add(response, "Link", "`<...>; rel=\"next\"`: where the list goes on; absent at its end");
        }
    }
}

/// A refusal that the operation declares itself gets the media type of problems.
fn name_problem(response: &mut Response) {
    let content = response.content.shift_remove("application/json");
    let Some(content) = content else { return };
    let is_problem = match &content {
        RefOr::T(Content { schema: Some(RefOr::Ref(schema)), .. }) => {
            schema.ref_location.ends_with("/Problem")
        }
        _ => false,
    };
    let media_type = if is_problem { PROBLEM_MEDIA_TYPE } else { "application/json" };
    response.content.insert(media_type.to_string(), content);
}

fn is_in_query(parameter: &RefOr<Parameter>) -> bool {
    matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query)
}

fn add(response: &mut Response, name: &str, what: &str) {
    let header: Header = HeaderBuilder::new().description(Some(what)).build();
    response.headers.insert(name.to_string(), RefOr::T(header));
}

/// The name of the response that a kind of problem has in the description.
fn name_of(kind: ErrorKind) -> String {
    kind.name().to_string()
}

fn problem(what: &str) -> Response {
    let content = Content::new(Some(Ref::from_schema_name("Problem")));
    ResponseBuilder::new().description(what).content(PROBLEM_MEDIA_TYPE, content).build()
}

fn under_way() -> Response {
    let content = Content::new(Some(Ref::from_schema_name("Job")));
    let what = "it goes on as a job; also where it was over at once";
    let mut response = ResponseBuilder::new().description(what).content("application/json", content).build();
    add(&mut response, "Location", "where the job is");
    response
}

fn wait() -> Parameter {
    ParameterBuilder::new()
        .name("wait")
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some("`false`: answer at once with a job that goes on; `true` if absent"))
        .schema(Some(ObjectBuilder::new().schema_type(Type::Boolean)))
        .build()
}

fn prefer() -> Parameter {
    header_parameter("Prefer", "`respond-async` is the same as `wait=false` (RFC 7240)")
}

fn idempotency_key() -> Parameter {
    header_parameter(
        "Idempotency-Key",
        "made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 \
         hours it does nothing and gets the first answer, if that was a success. Kept in memory",
    )
}

fn if_match() -> Parameter {
    header_parameter(
        "If-Match",
        "the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is \
         not so any more",
    )
}

fn header_parameter(name: &str, what: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(what))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}
